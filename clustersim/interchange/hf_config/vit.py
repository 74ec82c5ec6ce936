"""The vision transformer (Dosovitskiy et al., 2021): patches of an image as tokens."""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.interchange.hf_config.blocks import HfNet, feed_forward, op_of, plain_attention
from clustersim.interchange.hf_config.config import Config
from clustersim.model.builder import Tensor


def vit(net: HfNet, config: Config) -> None:
    """Build a ViT: a classifier over a class token, or the pooler of ViTModel."""
    if config.requested_tokens is not None:
        raise InputError("a sample of a ViT is an image; remove --tokens", got=str(config.requested_tokens))
    net.sample = "image"
    kind = config.architecture(["ViTForImageClassification", "ViTModel"])
    features, heads = config.size("hidden_size"), config.size("num_attention_heads")
    layers, width = config.layers("num_hidden_layers"), config.size("intermediate_size")
    function, labels = config.function("hidden_act"), config.labels()
    channels, size, patch = (
        config.size("num_channels"),
        config.size("image_size"),
        config.size("patch_size"),
    )
    config.split("hidden_size", features, "num_attention_heads", heads)
    if size < patch:
        config.wrong("patch_size", f"expected at most image_size, {size} (got {patch})", patch, f"1 to {size}")
    bias = config.flag("qkv_bias")
    keys = {"hidden_dropout_prob": "drop", "attention_probs_dropout_prob": "drop_weights"}
    net.keeps = {name for key, name in keys.items() if not config.drops(key)}
    config.without_effect("encoder_stride", "tie_word_embeddings")
    pooled_size, pooled_function = config.size("pooler_output_size", features), config.function("pooler_act")
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
        pooled = net.fully_connected("pooler", Tensor(features), pooled_size)
        net.loss("loss", net.activation(f"pooler.{op_of(pooled_function)}", pooled_function, pooled))
    else:
        net.loss("loss", net.fully_connected("classifier", Tensor(features), labels))
