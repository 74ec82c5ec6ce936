"""A language model of two LSTM layers over Penn Treebank (Zaremba et al., 2015)."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder
from clustersim.model.layer import Model

_VOCABULARY = 10_000
_TOKENS = 35


def lstm_lm(name: str, hidden: int) -> Callable[[], Model]:
    """Return a builder of the paper's network of two layers with `hidden` units: 650 is its medium one, 1500 its large.

    A sample is 35 words, the paper's unrolling length. Each layer has two biases, as in cuDNN and PyTorch;
    the embedding and the last layer are not tied.
    """

    def build() -> Model:
        title = f"LSTM language model, 2 x {hidden} units, {_TOKENS} words"
        net = Builder(name, title, sample="sequence", source="arXiv:1409.2329, section 4.1")
        x = net.embedding("embedding", _TOKENS, hidden, rows=[_VOCABULARY])
        x = net.dropout("drop0", x)
        for number in (1, 2):
            x = net.dropout(f"drop{number}", net.lstm(f"lstm{number}", x, hidden))
        net.loss("loss", net.linear("decoder", x, _VOCABULARY))
        return net.model()

    return build
