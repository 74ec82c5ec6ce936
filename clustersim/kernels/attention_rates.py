"""How fast a fused attention runs on Hopper and on Ampere, by the width of its heads and the tokens of a sequence.

    utilisation = limit / (1 + half / tokens)

of the tensor cores' peak. A block of queries has keys to go through one after the other: the first of them, and what is
done before and after, hide behind nothing, and of tiles on the edge of a mask half is computed in vain. What is lost is
so many tokens' time, `half`, whatever the sequence has.

Hopper's are fitted to charts of Shah et al. (FlashAttention-3, arXiv:2407.08608, section 4.1: H100 SXM of 80 GB, 16,384
tokens in all, 2,048 features, 512 to 16,384 tokens a sequence), read in a transcript of their labels: forward with and
without a causal mask, backward without one, of FlashAttention-2 and -3 and of cuDNN 9, heads of 64 and 128 features. By
least squares of the relative error of 1 / speed; the law is off by 1 % in the median of 108 bars, by 5 % at most
(`tests/kernels/test_attention_rates.py` has them all). Assumed: backward behind a mask loses as many tokens more as
forward; widths in between are in between, narrower heads are as those of 64 and wider ones as those of 128.

Ampere's likewise to Dao's charts of both passes together (FlashAttention-2, arXiv:2307.08691, figure 4: A100 SXM of 80
GB, the same sizes), of the first FlashAttention and the second: off by 1 % in the median of 45 bars, by 7 % at most.
Labels of heads of 64 behind a mask were read from the figure's own text by one who drew it again (all bars as a
transcript has them but for two, by 1 and by 2 %), the others in a transcript. Assumed: each pass has the rate of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clustersim.model.layer import Layer

WIDTHS = (64, 128)
"""Features of a head that the charts have."""

H100_FLOP_PER_S = 989.4e12
"""The peak that the charts' speeds are shares of: H100 SXM, dense, 16 bits."""

A100_FLOP_PER_S = 312e12
"""The same of an A100."""


class Rate(NamedTuple):
    """TFLOP/s of endless sequences on a chip of so high a peak, and tokens of a sequence that has half of it."""

    limit: float
    half: float
    peak_flop_per_s: float = H100_FLOP_PER_S

    def at(self, tokens: float) -> float:
        """Return the share of the peak at so many tokens a sequence.

        >>> round(Rate(494.7, 1024).at(1024), 3)
        0.25
        """
        return self.limit * 1e12 / self.peak_flop_per_s / (1.0 + self.half / tokens)


class Rates(NamedTuple):
    """Forward behind a causal mask, forward of all pairs, and backward of all pairs."""

    masked: Rate
    forward: Rate
    backward: Rate

    def of(self, is_forward: bool, is_masked: bool) -> Rate:
        """Return the rate of a pass; backward behind a mask loses as many tokens more as forward (assumed)."""
        if is_forward:
            return self.masked if is_masked else self.forward
        more = self.masked.half - self.forward.half if is_masked else 0.0
        return self.backward._replace(half=self.backward.half + more)


class Together(NamedTuple):
    """Both passes together, behind a causal mask and of all pairs."""

    masked: Rate
    whole: Rate

    def of(self, _: bool, is_masked: bool) -> Rate:
        """Return the rate of a pass, which is that of both."""
        return self.masked if is_masked else self.whole


ByWidth = Mapping[int, Rates | Together]
"""Rates of a kernel by the features of a head."""

HOPPER: Mapping[int, ByWidth] = {
    2: {
        64: Rates(Rate(308, 359), Rate(327, 78), Rate(296, 252)),
        128: Rates(Rate(351, 402), Rate(377, 104), Rate(329, 274)),
    },
    3: {
        64: Rates(Rate(503, 820), Rate(510, 277), Rate(496, 404)),
        128: Rates(Rate(655, 602), Rate(670, 209), Rate(592, 427)),
    },
    9: {
        64: Rates(Rate(398, 391), Rate(419, 127), Rate(451, 337)),
        128: Rates(Rate(561, 387), Rate(621, 111), Rate(542, 376)),
    },
}
"""By kernel (`flash` of a layer), on an H100."""


def _ampere(limit: float, half: float) -> Rate:
    return Rate(limit, half, A100_FLOP_PER_S)


AMPERE: Mapping[int, ByWidth] = {
    1: {
        64: Together(_ampere(95, 351), _ampere(111, 110)),
        128: Together(_ampere(96, 397), _ampere(101, 169)),
    },
    2: {
        64: Together(_ampere(176, 505), _ampere(182, 173)),
        128: Together(_ampere(199, 523), _ampere(215, 278)),
    },
}
"""The same of an A100, whose newer kernels are the second FlashAttention."""


def utilisation(rates: ByWidth, width: int, tokens: int, is_forward: bool, is_masked: bool) -> float:
    """Return the share of the peak that a kernel of such rates reaches.

    >>> round(utilisation(HOPPER[2], 128, 8192, True, True) * 989.4)
    335
    """
    narrow, wide = (rates[each].of(is_forward, is_masked).at(tokens) for each in WIDTHS)
    part = (min(max(width, WIDTHS[0]), WIDTHS[1]) - WIDTHS[0]) / (WIDTHS[1] - WIDTHS[0])
    return narrow + part * (wide - narrow)


def block_utilisation(rates: ByWidth, width: int, tokens: int, is_forward: bool, masked: bool, blocks: int) -> float:
    """Return the share of the peak in the mean of all turns of a ring, each of which has a block of so many `tokens`.

    Behind a causal mask a GPU's own block alone is masked, 1 in `blocks`. Of all others half have all queries and half
    of a block's keys, half have half of the queries and all keys, without a mask (`AttnFuncWithCPAndKVP2P` of
    TransformerEngine, context_parallel.py).

    >>> round(block_utilisation(HOPPER[2], 128, 16_384, True, True, 1) * 989.4), round(
    ...     block_utilisation(HOPPER[2], 128, 16_384, True, True, 32) * 989.4)
    (343, 372)
    """
    own = utilisation(rates, width, tokens, is_forward, masked)
    if not masked:
        return own
    half, whole = (utilisation(rates, width, keys, is_forward, False) for keys in (tokens // 2 or 1, tokens))
    return blocks / (1 / own + (blocks - 1) * 0.5 * (1 / half + 1 / whole))


def width_and_keys(layer: Layer) -> tuple[int, int]:
    """Return the features of a head and the keys of a sequence, of either layer of a fused attention."""
    first, second = layer.shape["inputs"], layer.shape["outputs"]
    return (second, first) if layer.output_elements else (first, second)


def is_masked(layer: Layer) -> bool:
    """Say whether a layer of a fused attention computes some of all pairs of tokens only."""
    shape = layer.shape
    everything = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"]
    return layer.flop < 0.75 * everything
