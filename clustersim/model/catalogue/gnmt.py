"""GNMT v2 (Wu et al., 2016, in the version of MLPerf and NVIDIA): translation by LSTMs with attention."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_FEATURES, _VOCABULARY = 1024, 32_320
TOKENS = 28
"""Words per sentence: in MLPerf's v0.7 a DGX-1 trains 804,957 of both languages a second, 2,048 pairs in 142 ms."""


def gnmt() -> Model:
    """Return GNMT v2 on pairs of 28 and 28 words: an encoder and a decoder of four layers each.

    The encoder's first layer is bidirectional. The decoder's first attends, by Bahdanau's sum of query and key, and
    all layers above read the attention output. One table serves both languages; the output layer has a separate one.
    """
    source = "arXiv:1609.08144; NVIDIA, DeepLearningExamples, PyTorch/Translation/GNMT/seq2seq/models"
    net = Builder("gnmt", f"GNMT v2, {TOKENS} words", sample="sentence pair", source=source)
    x = net.dropout("encoder.drop0", net.embedding("embedding", TOKENS, _FEATURES, rows=[_VOCABULARY]))
    both = (net.lstm("encoder.0.forth", x, _FEATURES), net.lstm("encoder.0.back", x, _FEATURES))
    x = net.dropout("encoder.drop1", net.concat("encoder.0", *both))
    x = net.lstm("encoder.1", x, _FEATURES)
    for number in (2, 3):
        y = net.lstm(f"encoder.{number}", net.dropout(f"encoder.drop{number}", x), _FEATURES)
        x = net.add(f"encoder.{number}.add", y, x)
    return _decoder(net, x)


def _decoder(net: Builder, memory: Tensor) -> Model:
    # The decoder uses the encoder's table: it has no rows.
    x = net.dropout("decoder.drop0", net.embedding("decoder.embedding", TOKENS, _FEATURES, rows=[0]))
    x = net.lstm("decoder.0", x, _FEATURES)
    context = _attention(net, x, memory)
    x = net.dropout("decoder.drop1", x)
    for number in (1, 2, 3):
        y = net.lstm(f"decoder.{number}", net.concat(f"decoder.{number}.concat", x, context), _FEATURES)
        x = net.add(f"decoder.{number}.add", y, x) if number > 1 else y
        if number < 3:
            x = net.dropout(f"decoder.drop{number + 1}", x)
    net.loss("loss", net.linear("classifier", x, _VOCABULARY))
    return net.model()


def _attention(net: Builder, query: Tensor, memory: Tensor) -> Tensor:
    """Score every pair of words by a vector of length one, scaled, times tanh(query + key + bias), and average the
    memory.
    """
    net.linear("attention.query", query, _FEATURES, bias=False)
    net.linear("attention.key", memory, _FEATURES, bias=False)
    pairs = net.tanh("attention.tanh", Tensor(_FEATURES, TOKENS * TOKENS))
    net.additive_scores("attention.scores", pairs)
    weights = net.softmax("attention.softmax", Tensor(TOKENS, TOKENS))
    return net.attention_matmul("attention.context", weights, memory, heads=1, outputs=_FEATURES)
