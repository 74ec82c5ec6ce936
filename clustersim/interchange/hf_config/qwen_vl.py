"""Qwen2.5-VL (Bai et al., 2025): a tower with attention in windows, patches merged two by two, and a Qwen2."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clustersim.interchange.hf_config.classes import config_class
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.llama import qwen2
from clustersim.interchange.hf_config.llava import joined_text
from clustersim.model.blocks.attention import attention_kernels
from clustersim.model.blocks.feed_forward import gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_IMAGE_SIZE = 448
"""Pixels a side where nothing is asked for: the config has none, since images keep their own size."""

_OF_BOTH = {"architectures", "dtype", "model_type", "tie_word_embeddings"}


@dataclass(frozen=True)
class _Tower:
    blocks: int
    features: int
    heads: int
    width: int
    function: str
    inputs: int  # numbers of a patch
    grid: int  # patches a side
    merged: int  # patches a side of a merged one
    window: int  # patches a side of a window
    whole: tuple[int, ...]  # blocks with attention to all patches
    outputs: int

    @property
    def tokens(self) -> int:
        return (self.grid // self.merged) ** 2


def qwen2_5_vl(net: BlockBuilder, config: Config) -> None:
    """Build Qwen2.5-VL: a sample is a square image, and `--tokens` of text beside it. All parts are trained."""
    config.architecture(["Qwen2_5_VLForConditionalGeneration"])
    _gather_text(config)
    tower, text = (
        _tower(config.part("vision_config", "qwen2_5_vl_vision")),
        config.part("text_config", "qwen2_5_vl_text"),
    )
    features = text.size("hidden_size")
    if tower.outputs != features:
        config.wrong("vision_config", f"out_hidden_size is {tower.outputs}, and hidden_size of the text {features}")
    config.without_effect("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    text = joined_text(config, text, tower.tokens)
    config.check()
    net.sample = "image and text"
    image = Tensor(tower.inputs, tower.grid**2, needs_gradient=False)
    x = net.linear("vision.patches", image, tower.features, bias=False)
    x = net.copied("vision.partition", x, x)
    for number in range(tower.blocks):
        x = _block(net, f"vision.blocks.{number}", x, tower, number in tower.whole)
    x = net.rms_norm("vision.merger.norm", x)
    x = Tensor(tower.merged**2 * x.channels, tower.tokens)
    x = net.activation("vision.merger.act", "gelu", net.linear("vision.merger.in", x, x.channels))
    x = net.linear("vision.merger.out", x, features)
    net.copied("vision.insert", x, x, times=2)
    qwen2(net, text)


def _gather_text(config: Config) -> None:
    """Put the keys of the language model, which older files have beside the others, into `text_config`."""
    if config.values.get("text_config") is None:
        names = set(config_class("qwen2_5_vl_text").defaults) - _OF_BOTH
        own = {key: config.values[key] for key in list(config.values) if key in names}
        config.without_effect(*own)
        config.values["text_config"] = own


def _tower(config: Config) -> _Tower:
    features, heads, patch = config.size("hidden_size"), config.size("num_heads"), config.size("patch_size")
    config.split("hidden_size", features, "num_heads", heads)
    merged, window = config.size("spatial_merge_size"), config.size("window_size")
    asked = config.asked_image_size()
    side = asked or max(1, _IMAGE_SIZE // (patch * merged)) * patch * merged
    if asked is None:
        config.notes.append(f"an image is {side} x {side} pixels; change this with --image-size")
    elif asked % (patch * merged):
        unit = patch * merged
        config.wrong(
            "patch_size", f"an image has a multiple of {unit} pixels a side (got {asked})", asked, f"{unit} x n"
        )
    if window < patch * merged:
        config.wrong("window_size", f"expected at least one merged patch, {patch * merged} (got {window})", window)
    config.without_effect("tokens_per_second")
    return _Tower(
        blocks=config.layers("depth"),
        features=features,
        heads=heads,
        width=config.size("intermediate_size"),
        function=config.function("hidden_act"),
        inputs=config.size("in_channels") * config.size("temporal_patch_size") * patch**2,
        grid=side // patch,
        merged=merged,
        window=max(1, window // patch // merged) * merged,
        whole=tuple(config.numbers("fullatt_block_indexes") or ()),
        outputs=config.size("out_hidden_size"),
    )


def _block(net: BlockBuilder, name: str, x: Tensor, tower: _Tower, whole: bool) -> Tensor:
    at = f"{name}.attention"
    qkv = net.linear(f"{at}.qkv", net.rms_norm(f"{name}.norm1", x), 3 * x.channels)
    net.rotary(f"{at}.rotary", replace(qkv, channels=2 * x.channels))
    for rows, number in _windows(tower, whole):
        each = Tensor(number * x.channels, rows)
        attention_kernels(net, at if number * rows == x.height else f"{at}.{rows}", each, each, number * tower.heads)
    y = net.linear(f"{at}.output", x, x.channels)
    x = net.add(f"{at}.add", x, y)
    y = gated_feed_forward(net, f"{name}.feed_forward", net.rms_norm(f"{name}.norm2", x), tower.width, tower.function,
                           bias=True)  # fmt: skip
    return net.add(f"{name}.feed_forward.add", x, y)


def _windows(tower: _Tower, whole: bool) -> list[tuple[int, int]]:
    """Return the sizes of windows in patches, and how many have each; those at the edges are smaller."""
    if whole:
        return [(tower.grid**2, 1)]
    full, rest = divmod(tower.grid, tower.window)
    sides = [(side, number) for side, number in ((tower.window, full), (rest, 1)) if side and number]
    found: dict[int, int] = {}
    for height, rows in sides:
        for width, columns in sides:
            found[height * width] = found.get(height * width, 0) + rows * columns
    return list(found.items())
