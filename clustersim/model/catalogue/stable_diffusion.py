"""The U-Net of Stable Diffusion 2 (Rombach et al., 2022) in diffusers, on latents with an eighth of an image's side.

A SiLU takes the time of a GELU. The division of a block's sum by one is left out. The time embedding is added
like a second tensor of the block's size, which moves about as many bytes more.
"""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_CHANNELS = (320, 640, 1280, 1280)
_WITH_ATTENTION = (True, True, True, False)
_BLOCKS, _HEAD_WIDTH, _LATENTS, _TIME = 2, 64, 4, 1280
_TEXT = Tensor(1024, 77, needs_gradient=False)
_SOURCE = (
    "Hugging Face, stabilityai/stable-diffusion-2-base, unet/config.json (read in copies); recalled: diffusers 0.12, "
    "UNet2DConditionModel, whose parameters it has to the last one"
)


def stable_diffusion_2(pixels: int) -> Callable[[], Model]:
    """Return a builder of the U-Net on images of `pixels` pixels a side; text and latents are precomputed.

    Self-attention and attention to the text are FlashAttention 1, xFormers' kernel.
    """

    def build() -> Model:
        name = f"stable-diffusion-2-{pixels}"
        net = Builder(name, f"Stable Diffusion 2, U-Net, {pixels} pixels", source=_SOURCE)
        time = Tensor(_CHANNELS[0], needs_gradient=False)
        time = net.gelu("time.silu", net.linear("time.in", time, _TIME))
        time = net.linear("time.out", time, _TIME)
        x = net.conv("conv_in", net.input(_LATENTS, pixels // 8, pixels // 8), _CHANNELS[0], 3, pad=1)
        skips = [x]
        for level, (channels, attends) in enumerate(zip(_CHANNELS, _WITH_ATTENTION, strict=True)):
            for number in range(_BLOCKS):
                x = _stage(net, f"down{level}.{number}", x, time, channels, attends)
                skips.append(x)
            if level < len(_CHANNELS) - 1:
                x = net.conv(f"down{level}.downsample", x, channels, 3, stride=2, pad=1)
                skips.append(x)
        x = _stage(net, "middle.0", x, time, _CHANNELS[-1], attends=True)
        x = _stage(net, "middle.1", x, time, _CHANNELS[-1], attends=False)
        for level in reversed(range(len(_CHANNELS))):
            channels = _CHANNELS[level]
            for number in range(_BLOCKS + 1):
                x = net.concat(f"up{level}.{number}.concat", x, skips.pop())
                x = _stage(net, f"up{level}.{number}", x, time, channels, _WITH_ATTENTION[level])
            if level:
                x = net.upsample(f"up{level}.upsample", x, 2)
                x = net.conv(f"up{level}.conv", x, channels, 3, pad=1)
        x = net.gelu("out.silu", net.group_norm("out.norm", x))
        net.loss("loss", net.conv("conv_out", x, _LATENTS, 3, pad=1))
        return net.model()

    return build


def _stage(net: Builder, name: str, x: Tensor, time: Tensor, channels: int, attends: bool) -> Tensor:
    x = _residual(net, f"{name}.residual", x, time, channels)
    return _transformer(net, f"{name}.transformer", x) if attends else x


def _residual(net: Builder, name: str, x: Tensor, time: Tensor, channels: int) -> Tensor:
    """Normalise and convolve twice, add the time embedding between, and convolve `x` where its channels differ."""
    y = net.gelu(f"{name}.silu1", net.group_norm(f"{name}.norm1", x))
    y = net.conv(f"{name}.conv1", y, channels, 3, pad=1)
    net.linear(f"{name}.time", net.gelu(f"{name}.time.silu", time), channels)
    y = net.add(f"{name}.time.add", y, y)
    y = net.gelu(f"{name}.silu2", net.group_norm(f"{name}.norm2", y))
    y = net.conv(f"{name}.conv2", y, channels, 3, pad=1)
    return net.add(f"{name}.add", net.conv(f"{name}.shortcut", x, channels, 1) if x.channels != channels else x, y)


def _transformer(net: Builder, name: str, image: Tensor) -> Tensor:
    """Transpose to channels last, attend to itself and to the text, and transpose back."""
    transposed = net.concat(f"{name}.turn", net.group_norm(f"{name}.norm", image))
    x = net.linear(f"{name}.in", Tensor(image.channels, image.positions), image.channels)
    assert transposed.elements == x.elements
    x = _attention(net, f"{name}.self", x, x)
    x = _attention(net, f"{name}.text", x, _TEXT)
    y = net.linear(f"{name}.feed_forward.in", net.layer_norm(f"{name}.feed_forward.norm", x), 8 * x.channels)
    y = net.linear(f"{name}.feed_forward.out", net.gate(f"{name}.feed_forward.gate", y, "gelu"), x.channels)
    x = net.add(f"{name}.feed_forward.add", x, y)
    net.concat(f"{name}.turn_back", net.linear(f"{name}.out", x, x.channels))
    return net.add(f"{name}.add", image, image)


def _attention(net: Builder, name: str, x: Tensor, memory: Tensor) -> Tensor:
    """Add attention of `x` to a memory, with separate matrices of queries, keys and values."""
    y = net.layer_norm(f"{name}.norm", x)
    if memory is x:
        net.linear(f"{name}.qkv", y, x.channels, bias=False, count=3)
    else:
        net.linear(f"{name}.q", y, x.channels, bias=False)
        net.linear(f"{name}.kv", memory, x.channels, bias=False, count=2)
    key = Tensor(x.channels, memory.height)
    y = net.fused_attention(name, Tensor(x.channels, x.height), key, x.channels // _HEAD_WIDTH, flash=1)
    return net.add(f"{name}.add", x, net.linear(f"{name}.output", y, x.channels))
