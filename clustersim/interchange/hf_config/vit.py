"""The vision transformer (Dosovitskiy et al., 2021): patches of an image as tokens."""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.interchange.hf_config.blocks import HfNet, feed_forward, plain_attention
from clustersim.interchange.hf_config.config import Config
from clustersim.model.builder import Tensor


def vit(net: HfNet, config: Config) -> None:
    """Build a ViT: a classifier over a class token, or the pooler of ViTModel."""
    if config.requested_tokens is not None:
        raise InputError("a sample of a ViT is an image; remove --tokens", got=str(config.requested_tokens))
    net.sample = "image"
    kind = config.architecture(["ViTForImageClassification", "ViTModel"])
    features, heads = config.size("hidden_size", 768), config.size("num_attention_heads", 12)
    layers, width = config.layers("num_hidden_layers", 12), config.size("intermediate_size", 3072)
    function, labels = config.text("hidden_act", "gelu"), config.labels()
    channels, size, patch = (
        config.size("num_channels", 3),
        config.size("image_size", 224),
        config.size("patch_size", 16),
    )
    config.split("hidden_size", features, "num_attention_heads", heads)
    if size < patch:
        config.wrong("patch_size", f"expected at most image_size, {size} (got {patch})", patch, f"1 to {size}")
    bias = config.flag("qkv_bias", True)
    config.check()
    x = net.conv("patches", net.input(channels, size, size), features, kernel=patch, stride=patch)
    tokens = x.positions + 1
    x = net.parameters("positions", Tensor(features, tokens), num=(tokens + 1) * features)
    for number in range(layers):
        name = f"layer.{number}"
        y = net.layer_norm(f"{name}.norm1", x)
        qkv = net.linear(f"{name}.attention.qkv", y, features, bias=bias, count=3)
        each = replace(qkv, channels=features)
        y = plain_attention(net, f"{name}.attention", each, each, heads, features, bias=True)
        x = net.add(f"{name}.attention.add", x, y)
        y = net.layer_norm(f"{name}.norm2", x)
        x = net.add(f"{name}.feed_forward.add", x, feed_forward(net, f"{name}.feed_forward", y, width, function))
    net.layer_norm("norm", x)
    if kind == "ViTModel":
        pooled = net.fully_connected("pooler", Tensor(features), features)
        net.loss("loss", net.activation("pooler.tanh", "tanh", pooled))
    else:
        net.loss("loss", net.fully_connected("classifier", Tensor(features), labels))
