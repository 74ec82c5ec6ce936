"""T5 (Raffel et al., 2020): an encoder and a decoder, RMS norms, no biases, positions as learned biases of scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clustersim.interchange.hf_config.blocks import HfNet, feed_forward, gated_feed_forward, plain_attention
from clustersim.interchange.hf_config.config import Config
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class _Sizes:
    heads: int
    inner: int  # features of all heads together
    width: int
    function: str
    gated: bool
    buckets: int


def t5(net: HfNet, config: Config) -> None:
    """Build a T5; encoder and decoder have the same number of tokens, and one sample is both."""
    config.architecture(["T5ForConditionalGeneration"])
    features, heads = config.size("d_model"), config.size("num_heads")
    layers = config.layers("num_layers")
    decoders, vocabulary = config.layers("num_decoder_layers", layers), config.size("vocab_size")
    projection = config.text("feed_forward_proj", "relu")
    buckets, tied = config.size("relative_attention_num_buckets"), _is_tied(config)
    inner, width = heads * config.size("d_kv"), config.size("d_ff")
    tokens = config.tokens(config.size("n_positions", 512), learned=False)
    net.keeps = set() if config.drops("dropout_rate") else {"drop", "drop_weights"}
    config.without_effect("classifier_dropout", "relative_attention_max_distance")
    config.check()
    gated = projection.startswith("gated-")
    sizes = _Sizes(heads, inner, width, projection.removeprefix("gated-"), gated, buckets)
    words = net.embedding("encoder.embedding", tokens, features, rows=[vocabulary])
    memory = _stack(net, "encoder", words, sizes, layers)
    words = net.tied_embedding("decoder.embedding", tokens, features)
    x = _stack(net, "decoder", words, sizes, decoders, memory)
    net.loss("loss", net.linear("head", x, vocabulary, bias=False, tied=tied))


def _is_tied(config: Config) -> bool:
    """Return whether head and embedding share a matrix: unless the file says that they do not, as T5 1.1's does."""
    return config.flag("tie_word_embeddings") or config.values.get("tie_word_embeddings") is None


def _stack(net: HfNet, name: str, x: Tensor, sizes: _Sizes, layers: int, memory: Tensor | None = None) -> Tensor:
    """Add an encoder, or a decoder that attends to the encoder's output."""
    x = net.dropout(f"{name}.embedding.drop", x)
    for number in range(layers):
        block = f"{name}.block.{number}"
        shifts = sizes.buckets * sizes.heads if number == 0 else 0
        y = _attention(net, f"{block}.attention", net.rms_norm(f"{block}.norm1", x), sizes, shifts)
        x = net.add(f"{block}.attention.add", x, y)
        if memory is not None:
            y = net.rms_norm(f"{block}.norm_memory", x)
            x = net.add(f"{block}.memory.add", x, _attention(net, f"{block}.memory", y, sizes, 0, memory))
        y = net.rms_norm(f"{block}.norm2", x)
        feed = gated_feed_forward if sizes.gated else feed_forward
        y = net.dropout(f"{block}.drop", feed(net, f"{block}.feed_forward", y, sizes.width, sizes.function, bias=False))
        x = net.add(f"{block}.feed_forward.add", x, y)
    return net.dropout(f"{name}.drop", net.rms_norm(f"{name}.norm", x))


def _attention(
    net: HfNet, name: str, x: Tensor, sizes: _Sizes, num_shifts: int, memory: Tensor | None = None
) -> Tensor:
    """Add attention to the sequence itself, or to `memory`; the first of a stack learns position biases."""
    query = net.linear(f"{name}.query", x, sizes.inner, bias=False)
    both = net.linear(f"{name}.key_value", x if memory is None else memory, sizes.inner, bias=False, count=2)
    return plain_attention(net, name, query, replace(both, channels=sizes.inner), sizes.heads, x.channels, num_shifts)
