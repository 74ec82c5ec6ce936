"""Vision Transformer g/14 (Zhai et al., 2022) and CLIP (Radford et al., 2021) around it, as trained by NVIDIA's NeMo.

Both are Megatron's transformers, with one matrix for queries, keys and values and scores of all pairs of tokens, masked
or not. Eight class tokens in place of one make 264 tokens of an image, a multiple of eight.
"""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_PIXELS, _PATCH, _CLASS_TOKENS, _CLASSES = 224, 14, 8, 1000
_LAYERS, _FEATURES, _HIDDEN = 40, 1408, 6144
_VIT_HEADS, _CLIP_HEADS = 16, 22
_TEXT_LAYERS, _TEXT_FEATURES, _TEXT_HEADS, _TEXT_HIDDEN, _TEXT_TOKENS, _WORDS = 24, 1024, 16, 4096, 80, 49_408
_OUTPUT = 1024
_BACKBONE = "NVIDIA/NeMo, nemo/collections/vision/modules/vit/vit_backbone.py (commit 0550036a); "
_LAUNCHER = "NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training, "


def vit_giant_14() -> Model:
    """Return ViT-g/14 with a layer of as many features and a tanh before the classes; dropout except in attention."""
    net = Builder(
        "vit-giant-14",
        f"ViT-g/14, {_PIXELS} pixels",
        source=f"{_BACKBONE}{_LAUNCHER}vit/g_14.yaml (commit 10f3b9ac)",
    )
    x = net.dropout("drop", _image_tokens(net, "image"))
    for number in range(_LAYERS):
        x = _block(net, f"layer.{number}", x, _VIT_HEADS, _HIDDEN, drops=True)
    net.layer_norm("norm", x)
    y = net.tanh("head.tanh", net.linear("head.in", Tensor(_FEATURES), _FEATURES))
    net.loss("loss", net.linear("head.out", y, _CLASSES))
    return net.model()


def clip_giant_14() -> Model:
    """Return CLIP with ViT-g/14 for images and a causal transformer of 80 tokens for texts, without dropout.

    Its loss, which compares each image with the texts of all GPUs, is left out, and so is its one scale.
    """
    net = Builder(
        "clip-giant-14",
        f"CLIP g/14, {_PIXELS} pixels and {_TEXT_TOKENS} tokens",
        sample="pair",
        source=f"{_BACKBONE}nemo/collections/multimodal/models/clip/megatron_clip_models.py (071b8202); "
        f"{_LAUNCHER}clip/vit_g_14.yaml (commit 10f3b9ac)",
    )
    x = net.layer_norm("image.norm", _image_tokens(net, "image"))
    for number in range(_LAYERS):
        x = _block(net, f"image.{number}", x, _CLIP_HEADS, _HIDDEN)
    net.layer_norm("image.last_norm", x)
    image = net.linear("image.head", Tensor(_FEATURES), _OUTPUT, bias=False)
    x = net.embedding("text.embedding", _TEXT_TOKENS, _TEXT_FEATURES, rows=[_WORDS, _TEXT_TOKENS], words=False)
    for number in range(_TEXT_LAYERS):
        x = _block(net, f"text.{number}", x, _TEXT_HEADS, _TEXT_HIDDEN, masked=True)
    net.layer_norm("text.last_norm", x)
    text = net.linear("text.head", Tensor(_TEXT_FEATURES), _OUTPUT, bias=False)
    net.loss("loss", net.add("similarity", image, text))
    return net.model()


def _image_tokens(net: Builder, name: str) -> Tensor:
    """Multiply patches, prepend the class tokens, which are rows of the table here, and add positions."""
    patches = Tensor(3 * _PATCH**2, (_PIXELS // _PATCH) ** 2, needs_gradient=False)
    x = net.linear(f"{name}.patches", patches, _FEATURES)
    tokens = x.height + _CLASS_TOKENS
    added = net.embedding(f"{name}.positions", tokens, _FEATURES, rows=[tokens, _CLASS_TOKENS], words=False)
    return net.add(f"{name}.positions.add", Tensor(_FEATURES, tokens), added)


def _block(
    net: Builder, name: str, x: Tensor, heads: int, hidden: int, drops: bool = False, masked: bool = False
) -> Tensor:
    """Normalise before each branch; dropout applies to a branch's output."""
    each = Tensor(x.channels, x.height)
    net.linear(f"{name}.qkv", net.layer_norm(f"{name}.norm1", x), 3 * x.channels)
    scores = net.attention_matmul(f"{name}.scores", each, each, heads, x.height)
    weights = net.softmax(f"{name}.softmax", scores, masked)
    y = net.attention_matmul(f"{name}.context", weights, each, heads, outputs=x.channels // heads)
    y = net.linear(f"{name}.output", y, x.channels)
    x = net.add(f"{name}.attention.add", x, net.dropout(f"{name}.attention.drop", y) if drops else y)
    y = net.gelu(f"{name}.gelu", net.linear(f"{name}.in", net.layer_norm(f"{name}.norm2", x), hidden))
    y = net.linear(f"{name}.out", y, x.channels)
    return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.out.drop", y) if drops else y)
