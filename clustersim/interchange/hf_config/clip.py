"""CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023): a tower for images, one for texts, and their products."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.sample import image_sides, sides
from clustersim.interchange.hf_config.transformer import Heads, Stack, transformer
from clustersim.model.blocks.attention import attention_kernels
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class TextSizes:
    """A tower for texts."""

    features: int
    vocabulary: int
    positions: int
    tokens: int
    stack: Stack


@dataclass(frozen=True)
class Vision:
    """A tower for images of [height, width]; `own` are those whose positions it has learned."""

    features: int
    channels: int
    image: tuple[int, int]
    own: tuple[int, int]
    patch: tuple[int, int]
    stack: Stack
    pools: bool = False

    @property
    def positions(self) -> int:
        """Return the number of patches that have positions."""
        return (self.own[0] // self.patch[0]) * (self.own[1] // self.patch[1])

    @property
    def patches(self) -> int:
        """Return the number of patches of an image."""
        return (self.image[0] // self.patch[0]) * (self.image[1] // self.patch[1])


def clip(net: BlockBuilder, config: Config) -> None:
    """Build CLIP. The products of all images with all texts of a batch are left out."""
    config.architecture(["CLIPModel"])
    text, vision = text_of(config.part("text_config", "clip_text_model")), vision_of(config, "clip_vision_model")
    width = config.size("projection_dim")
    config.without_effect("logit_scale_init_value")
    _note_products(config, width)
    config.check()
    net.sample = "image and text"
    images = net.layer_norm("vision.post_norm", first_token(clip_vision(net, vision)))
    images = net.linear("vision.projection", images, width, bias=False)
    words = net.layer_norm("text.norm", text_tower(net, text, causal=True))
    texts = net.fully_connected("text.projection", Tensor(words.channels), width, bias=False)
    net.loss("loss", net.parameters("logits", net.add("similarity", images, texts), 1))


def siglip(net: BlockBuilder, config: Config) -> None:
    """Build SigLIP, whose images are pooled by an attention. The products of all images with all texts are left out."""
    config.architecture(["SiglipModel"])
    part = config.part("text_config", "siglip_text_model")
    text, vision = text_of(part), vision_of(config, "siglip_vision_model")
    width = part.size("projection_size", text.features)
    if not vision.pools:
        config.wrong("vision_use_head", "images that are not pooled cannot be compared with texts", "false", "true")
    config.without_effect("initializer_factor")
    _note_products(config, width)
    config.check()
    net.sample = "image and text"
    images = siglip_vision(net, vision)
    words = net.layer_norm("text.norm", text_tower(net, text, causal=False))
    texts = net.fully_connected("text.head", Tensor(words.channels), width)
    if images.channels == texts.channels:
        texts = net.add("similarity", images, texts)
    net.loss("loss", net.parameters("logits", texts, 2))


def _note_products(config: Config, width: int) -> None:
    config.notes.append(
        f"the products of all images with all texts of a batch, 2 x {width} FLOP a pair, are left out, and so is the "
        "gather of their vectors over GPUs"
    )


def text_of(config: Config) -> TextSizes:
    """Return the tower of a text config."""
    positions = config.size("max_position_embeddings")
    return TextSizes(
        features=config.size("hidden_size"),
        vocabulary=config.size("vocab_size"),
        positions=positions,
        tokens=config.tokens(positions, learned=True),
        stack=_stack(config),
    )


def vision_of(config: Config, model_type: str) -> Vision:
    """Return the tower of a config's `vision_config`."""
    part = config.part("vision_config", model_type)
    image, patch = image_sides(part), sides(part, "patch_size")
    if min(image) < max(patch):
        part.wrong("patch_size", f"expected at most image_size, {min(image)} (got {max(patch)})", max(patch))
    part.without_effect("projection_dim")
    return Vision(
        features=part.size("hidden_size"),
        channels=part.size("num_channels"),
        image=image,
        own=sides(part, "image_size"),
        patch=patch,
        stack=_stack(part),
        pools=part.flag("vision_use_head", False),
    )


def first_token(x: Tensor) -> Tensor:
    """Return one token of a sequence."""
    return Tensor(x.channels)


def _stack(config: Config) -> Stack:
    features, heads = config.size("hidden_size"), config.size("num_attention_heads")
    width = config.split("hidden_size", features, "num_attention_heads", heads)
    config.without_effect("projection_dim")
    return Stack(
        layers=config.layers("num_hidden_layers"),
        heads=Heads(heads, width, drops=config.drops("attention_dropout")),
        width=config.size("intermediate_size"),
        function=config.function("hidden_act"),
    )


def text_tower(net: BlockBuilder, text: TextSizes, causal: bool) -> Tensor:
    """Add the layers of a text, up to its last norm."""
    x = net.embedding("text.embedding", text.tokens, text.features, [text.vocabulary, text.positions])
    return transformer(net, "text.layers", x, text.stack, causal=causal)


def patch_tokens(net: BlockBuilder, vision: Vision, bias: bool) -> Tensor:
    """Add the convolution that makes a token of each patch."""
    image = net.input(vision.channels, *vision.image)
    return net.conv("vision.patches", image, vision.features, vision.patch, vision.patch, bias=bias)


def clip_vision(net: BlockBuilder, vision: Vision) -> Tensor:
    """Add CLIP's layers of an image: a class token, positions, a norm, and the blocks."""
    features = vision.features
    x = Tensor(features, patch_tokens(net, vision, bias=False).positions + 1)
    x = net.parameters("vision.positions", x, (vision.positions + 2) * features)
    x = net.layer_norm("vision.pre_norm", x)
    return transformer(net, "vision.layers", x, vision.stack)


def siglip_vision(net: BlockBuilder, vision: Vision) -> Tensor:
    """Add SigLIP's layers of an image, pooled by one learned query if it has that head."""
    features, stack = vision.features, vision.stack
    x = Tensor(features, patch_tokens(net, vision, bias=True).positions)
    x = net.parameters("vision.positions", x, vision.positions * features)
    x = net.layer_norm("vision.norm", transformer(net, "vision.layers", x, stack))
    if not vision.pools:
        return x
    query = net.parameters("vision.probe", Tensor(features), features)
    query = net.linear("vision.head.query", query, features)
    net.linear("vision.head.key_value", x, features, count=2)
    y = attention_kernels(net, "vision.head", query, x, stack.heads.num)
    y = net.linear("vision.head.output", y, features)
    z = feed_forward(
        net, "vision.head.feed_forward", net.layer_norm("vision.head.norm", y), stack.width, stack.function
    )
    return net.add("vision.head.add", y, z)
