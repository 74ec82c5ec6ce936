"""A language model of two LSTM layers over Penn Treebank (Zaremba et al., 2015). A sample is 35 words."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.net import TorchNet

_WORDS, _TOKENS = 10_000, 35


def lstm_lm(hidden: int, dropout: float) -> Callable[[TorchNet], None]:
    """Return a builder of the model with `hidden` units a layer, and the paper's dropout for that size."""

    def write(net: TorchNet) -> None:
        x = net.dropout("drop0", net.embedding("embedding", net.words(_TOKENS), _WORDS, hidden), dropout)
        for number in (1, 2):
            x = net.dropout(f"drop{number}", net.lstm(f"lstm{number}", x, hidden), dropout)
        net.loss("loss", net.linear("decoder", x, _WORDS))

    return write
