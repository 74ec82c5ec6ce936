"""T5 (Raffel et al., 2020), mT5 (Xue et al., 2021) and UMT5 (Chung et al., 2023): an encoder and a decoder.

They have RMS norms, no biases, and positions as a learned table that is added to the scores. mT5 is T5 1.1 with other
sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import Heads, attend
from clustersim.model.blocks.feed_forward import feed_forward, gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_POSITIONS = 512  # of the published models' inputs; the class has none


@dataclass(frozen=True)
class _Sizes:
    heads: Heads
    width: int
    function: str
    gated: bool
    table: int  # parameters of a table of positions
    each: bool  # whether every layer has one, and not only the first of a stack
    drops: bool


def t5(net: BlockBuilder, config: Config) -> None:
    """Build a T5; encoder and decoder have the same number of tokens, and one sample is both."""
    _build(net, config, "T5", config.size("n_positions", _POSITIONS))


def mt5(net: BlockBuilder, config: Config) -> None:
    """Build an mT5."""
    _build(net, config, "MT5", _POSITIONS)


def umt5(net: BlockBuilder, config: Config) -> None:
    """Build a UMT5, in which every layer has its own table of positions."""
    _build(net, config, "UMT5", _POSITIONS, each=True)


def _build(net: BlockBuilder, config: Config, prefix: str, positions: int, each: bool = False) -> None:
    config.architecture([f"{prefix}ForConditionalGeneration"])
    features, heads = config.size("d_model"), config.size("num_heads")
    layers = config.layers("num_layers")
    decoders, vocabulary = config.layers("num_decoder_layers", layers), config.size("vocab_size")
    projection, drops = config.text("feed_forward_proj"), config.drops("dropout_rate")
    tied = config.flag("tie_word_embeddings", True)
    config.without_effect("relative_attention_max_distance", "classifier_dropout", "is_encoder_decoder")
    sizes = _Sizes(
        heads=Heads(heads, config.size("d_kv"), False, False, False, drops),
        width=config.size("d_ff"),
        function=projection.removeprefix("gated-"),
        gated=projection.startswith("gated-"),
        table=config.size("relative_attention_num_buckets") * heads,
        each=each,
        drops=drops,
    )
    tokens = config.tokens(positions, learned=False)
    config.check()
    words = net.embedding("encoder.embedding", tokens, features, rows=[vocabulary])
    memory = _stack(net, "encoder", words, sizes, layers)
    words = net.tied_embedding("decoder.embedding", tokens, features)
    x = _stack(net, "decoder", words, sizes, decoders, memory)
    net.loss("loss", net.linear("head", x, vocabulary, bias=False, tied=tied))


def _stack(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, layers: int, memory: Tensor | None = None) -> Tensor:
    """Add an encoder, or a decoder that attends to the encoder's output."""
    x = _dropped(net, f"{name}.embedding", x, sizes)
    for number in range(layers):
        block = f"{name}.block.{number}"
        table = sizes.table if number == 0 or sizes.each else 0
        y = net.rms_norm(f"{block}.norm1", x)
        y = attend(net, f"{block}.attention", y, sizes.heads, causal=memory is not None, table=table)
        x = net.add(f"{block}.attention.add", x, _dropped(net, f"{block}.attention", y, sizes))
        if memory is not None:
            y = net.rms_norm(f"{block}.norm_memory", x)
            y = attend(net, f"{block}.memory", y, sizes.heads, memory=memory, table=0)
            x = net.add(f"{block}.memory.add", x, _dropped(net, f"{block}.memory", y, sizes))
        y = net.rms_norm(f"{block}.norm2", x)
        feed = gated_feed_forward if sizes.gated else feed_forward
        y = feed(net, f"{block}.feed_forward", y, sizes.width, sizes.function, bias=False)
        x = net.add(f"{block}.feed_forward.add", x, _dropped(net, block, y, sizes))
    return _dropped(net, name, net.rms_norm(f"{name}.norm", x), sizes)


def _dropped(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes) -> Tensor:
    return net.dropout(f"{name}.drop", x) if sizes.drops else x
