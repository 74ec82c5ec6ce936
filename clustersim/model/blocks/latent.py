"""Latent attention, and decoders with it that predict more tokens (DeepSeek-AI, arXiv:2405.04434 and 2412.19437)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clustersim.model.blocks.attention import attention_kernels
from clustersim.model.blocks.decoder import Block, Frame, decoder, head
from clustersim.model.blocks.feed_forward import Experts, experts_layer, gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class Latent:
    """The sizes of a multi-head latent attention: ranks of queries (None: no latent) and of keys with values.

    A head's queries and keys have `plain` features and `rotated` ones; the latter of the keys are shared by all heads.
    """

    heads: int
    query_rank: int | None
    key_rank: int
    plain: int
    rotated: int
    values: int
    bias: bool = False


def latent_decoder(
    net: BlockBuilder, frame: Frame, attention: Latent, sizes: Experts, dense: Sequence[int], predicted: int = 0
) -> None:
    """Add a decoder with latent attention and experts; the first blocks have a layer of `dense` features in between.

    `predicted` more blocks predict one token more each.
    """

    def block(name: str, number: int, x: Tensor) -> Tensor:
        y = latent_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), attention)
        x = net.add(f"{name}.attention.add", x, y)
        y = net.rms_norm(f"{name}.norm2", x)
        if number < len(dense):
            y = gated_feed_forward(net, f"{name}.feed_forward", y, dense[number], sizes.function)
        else:
            y = experts_layer(net, f"{name}.experts", y, sizes)
        return net.add(f"{name}.feed_forward.add", x, y)

    x = decoder(net, frame, block)
    head(net, frame, net.rms_norm("norm", x))
    for number in range(predicted if frame.head == "words" else 0):
        x = _predict(net, frame, block, number, x)


def latent_attention(net: BlockBuilder, name: str, x: Tensor, sizes: Latent) -> Tensor:
    """Add multi-head latent attention, as it trains: keys and values of every head are made from one latent.

    The products into the latents are computed by every GPU of a tensor parallel group, as in Megatron-LM
    (core/transformer/multi_latent_attention.py, commit 003b4ce2: `linear_q_down_proj` and `linear_kv_down_proj` are
    `duplicated`).
    """
    tokens, each = x.height, sizes.plain + sizes.rotated
    net.linear(f"{name}.key_value_down", x, sizes.key_rank + sizes.rotated, bias=sizes.bias, whole=True)
    latent = net.rms_norm(f"{name}.key_value_norm", Tensor(sizes.key_rank, tokens))
    source = x
    if sizes.query_rank is not None:
        source = net.linear(f"{name}.query_down", x, sizes.query_rank, bias=sizes.bias, whole=True)
        source = net.rms_norm(f"{name}.query_norm", source)
    query = net.linear(f"{name}.query_up", source, sizes.heads * each, bias=False)
    net.linear(f"{name}.key_value_up", latent, sizes.heads * (sizes.plain + sizes.values), bias=False)
    net.rotary(f"{name}.rotary", query, Tensor((sizes.heads + 1) * sizes.rotated, tokens))
    key, value = replace(query), Tensor(sizes.heads * sizes.values, tokens)
    context = attention_kernels(net, name, query, key, sizes.heads, causal=True, value=value)
    return net.linear(f"{name}.output", context, x.channels, bias=sizes.bias)


def _predict(net: BlockBuilder, frame: Frame, block: Block, number: int, x: Tensor) -> Tensor:
    """Add the prediction of one token more (arXiv:2412.19437, section 2.2): embedding and head are the model's own."""
    name = f"predict.{number}"
    found = net.tied_embedding(f"{name}.embedding", frame.tokens, frame.features, words=False)  # the same, one further
    words = net.rms_norm(f"{name}.norm_words", found)
    both = net.concat(f"{name}.concat", words, net.rms_norm(f"{name}.norm_state", x))
    x = block(name, frame.layers + number, net.linear(f"{name}.join", both, frame.features, bias=False, whole=True))
    y = net.linear(f"{name}.head", net.rms_norm(f"{name}.norm", x), frame.vocabulary, bias=False, tied=True)
    net.loss(f"{name}.loss", y)
    return x
