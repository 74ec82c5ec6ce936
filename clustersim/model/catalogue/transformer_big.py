"""The Transformer (Vaswani et al., 2017), "big", in the version of MLPerf and NVIDIA, on pairs of sentences."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_LAYERS, _FEATURES, _HEADS, _INNER = 6, 1024, 16, 4096
_VOCABULARY = 33_712
TOKENS = 32
"""Words per sentence with the padding of MLPerf's v0.7 batches: 10,240 hold 327 sentences on average."""


def transformer_big() -> Model:
    """Return the big Transformer of WMT14 English to German on pairs of 32 and 32 words.

    One table of 33,712 words of 1,024 features serves both sides and the output head; positions have no parameters,
    attention no biases; layers normalise before each branch, as in tensor2tensor.
    """
    source = "arXiv:1706.03762, table 3; fairseq's transformer_wmt_en_de_big_t2t with one dictionary of 33,712 words"
    net = Builder("transformer-big", f"Transformer big, {TOKENS} words", sample="sentence pair", source=source)
    x = net.dropout("encoder.drop", net.embedding("embedding", TOKENS, _FEATURES, rows=[_VOCABULARY]))
    for number in range(_LAYERS):
        name = f"encoder.{number}"
        x = _attend(net, f"{name}.self", x)
        x = _feed_forward(net, name, x)
    memory = net.layer_norm("encoder.norm", x)
    # The decoder uses the encoder's table: it has no rows.
    x = net.dropout("decoder.drop", net.embedding("decoder.embedding", TOKENS, _FEATURES, rows=[0]))
    for number in range(_LAYERS):
        name = f"decoder.{number}"
        x = _attend(net, f"{name}.self", x)
        x = _attend(net, f"{name}.across", x, memory)
        x = _feed_forward(net, name, x)
    x = net.layer_norm("decoder.norm", x)
    net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False, tied=True))
    return net.model()


def _attend(net: Builder, name: str, x: Tensor, memory: Tensor | None = None) -> Tensor:
    """Add self-attention, or attention to a memory, whose keys and values have a separate GEMM."""
    y = net.layer_norm(f"{name}.norm", x)
    if memory is None:
        net.linear(f"{name}.qkv", y, 3 * _FEATURES, bias=False)
    else:
        net.linear(f"{name}.q", y, _FEATURES, bias=False)
        net.linear(f"{name}.kv", memory, 2 * _FEATURES, bias=False)
    query, key = Tensor(_FEATURES, TOKENS), Tensor(_FEATURES, TOKENS)
    scores = net.attention_matmul(f"{name}.scores", query, key, _HEADS, outputs=TOKENS)
    weights = net.dropout(f"{name}.drop_weights", net.softmax(f"{name}.softmax", scores))
    y = net.attention_matmul(f"{name}.context", weights, key, _HEADS, outputs=_FEATURES // _HEADS)
    y = net.dropout(f"{name}.drop", net.linear(f"{name}.output", y, _FEATURES, bias=False))
    return net.add(f"{name}.add", x, y)


def _feed_forward(net: Builder, name: str, x: Tensor) -> Tensor:
    y = net.linear(f"{name}.in", net.layer_norm(f"{name}.norm", x), _INNER)
    y = net.dropout(f"{name}.drop_in", net.relu(f"{name}.relu", y))
    y = net.dropout(f"{name}.drop", net.linear(f"{name}.out", y, _FEATURES))
    return net.add(f"{name}.add", x, y)
