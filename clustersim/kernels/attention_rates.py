"""Rates of fused attention kernels on Hopper and Ampere, by head width and sequence length.

    utilisation = limit / (1 + half / tokens)

of the tensor cores' peak. A block of queries processes its keys in sequence. The first block of keys, the prologue and
the epilogue overlap with nothing, and of the tiles on the edge of a mask half the work is wasted. This loss is the time
of `half` tokens, whatever the sequence length.

Hopper's rates are fitted to charts of Shah et al. (FlashAttention-3, arXiv:2407.08608, section 4.1: H100 SXM of 80 GB,
16,384 tokens in all, 2,048 features, 512 to 16,384 tokens a sequence), read from a transcript of their labels: forward
with and without a causal mask, backward without one, of FlashAttention-2 and -3 and of cuDNN 9, heads of 64 and 128
features. The fit is by least squares of the relative error of 1 / speed. The formula is off by 1 % in the median of 108
bars, by 5 % at most (`tests/kernels/test_attention_rates.py` has them all). Assumed: with a mask, `half` grows by as
many tokens in the backward pass as in the forward pass. Head widths between 64 and 128 are interpolated, narrower heads
have the rate of 64 and wider heads that of 128.

Ampere's rates are fitted in the same way to Dao's charts of both passes together (FlashAttention-2, arXiv:2307.08691,
figure 4: A100 SXM of 80 GB, the same sizes), of FlashAttention 1 and 2: off by 1 % in the median of 45 bars, by 7 % at
most. Labels of heads of 64 with a mask were read from the text of a redrawn figure (all bars are as in a transcript,
except two, which differ by 1 and by 2 %), the others from a transcript. Assumed: each pass has the rate of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clustersim.model.layer import Layer

WIDTHS = (64, 128)
"""Head widths, in features, that the charts have."""

H100_FLOP_PER_S = 989.4e12
"""The peak that the charts' speeds are divided by: H100 SXM, dense, 16 bits."""

A100_FLOP_PER_S = 312e12
"""The same for an A100."""


class Rate(NamedTuple):
    """Asymptotic TFLOP/s for long sequences on a chip of this peak, and the sequence length in tokens that reaches
    half.
    """

    limit: float
    half: float
    peak_flop_per_s: float = H100_FLOP_PER_S

    def at(self, tokens: float) -> float:
        """Return the share of the peak at this sequence length.

        >>> round(Rate(494.7, 1024).at(1024), 3)
        0.25
        """
        return self.limit * 1e12 / self.peak_flop_per_s / (1.0 + self.half / tokens)


class PassRates(NamedTuple):
    """Forward with a causal mask, forward without a mask, and backward without a mask."""

    masked: Rate
    forward: Rate
    backward: Rate

    def of(self, is_forward: bool, is_masked: bool) -> Rate:
        """Return the rate of a pass. With a mask, backward loses as many tokens more as forward does (assumed)."""
        if is_forward:
            return self.masked if is_masked else self.forward
        more = self.masked.half - self.forward.half if is_masked else 0.0
        return self.backward._replace(half=self.backward.half + more)


class BothPasses(NamedTuple):
    """Forward and backward together, with a causal mask and without."""

    masked: Rate
    whole: Rate

    def of(self, _: bool, is_masked: bool) -> Rate:
        """Return the rate of a pass, which is that of both passes together."""
        return self.masked if is_masked else self.whole


RatesByWidth = Mapping[int, PassRates | BothPasses]
"""Rates of a kernel by head width in features."""

HOPPER: Mapping[int, RatesByWidth] = {
    2: {
        64: PassRates(Rate(308, 359), Rate(327, 78), Rate(296, 252)),
        128: PassRates(Rate(351, 402), Rate(377, 104), Rate(329, 274)),
    },
    3: {
        64: PassRates(Rate(503, 820), Rate(510, 277), Rate(496, 404)),
        128: PassRates(Rate(655, 602), Rate(670, 209), Rate(592, 427)),
    },
    9: {
        64: PassRates(Rate(398, 391), Rate(419, 127), Rate(451, 337)),
        128: PassRates(Rate(561, 387), Rate(621, 111), Rate(542, 376)),
    },
}
"""By kernel (`flash` of a layer), on an H100."""


def _ampere(limit: float, half: float) -> Rate:
    return Rate(limit, half, A100_FLOP_PER_S)


AMPERE: Mapping[int, RatesByWidth] = {
    1: {
        64: BothPasses(_ampere(95, 351), _ampere(111, 110)),
        128: BothPasses(_ampere(96, 397), _ampere(101, 169)),
    },
    2: {
        64: BothPasses(_ampere(176, 505), _ampere(182, 173)),
        128: BothPasses(_ampere(199, 523), _ampere(215, 278)),
    },
}
"""The same on an A100; its newer kernels run at the rate of FlashAttention-2."""


def utilisation(rates: RatesByWidth, width: int, tokens: int, is_forward: bool, is_masked: bool) -> float:
    """Return the share of the peak that a kernel reaches at this head width and sequence length.

    >>> round(utilisation(HOPPER[2], 128, 8192, True, True) * 989.4)
    335
    """
    narrow, wide = (rates[each].of(is_forward, is_masked).at(tokens) for each in WIDTHS)
    part = (min(max(width, WIDTHS[0]), WIDTHS[1]) - WIDTHS[0]) / (WIDTHS[1] - WIDTHS[0])
    return narrow + part * (wide - narrow)


def block_utilisation(
    rates: RatesByWidth, width: int, tokens: int, is_forward: bool, masked: bool, blocks: int
) -> float:
    """Return the mean share of the peak over all steps of ring attention, each with a block of `tokens`.

    With a causal mask only a GPU's own block is masked, 1 in `blocks`. Of all others, half have all queries and half
    of a block's keys, and half have half of the queries and all keys, without a mask (`AttnFuncWithCPAndKVP2P` of
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
    """Return the head width and the number of keys of a sequence, from either layer of a fused attention."""
    first, second = layer.shape["inputs"], layer.shape["outputs"]
    return (second, first) if layer.output_elements else (first, second)


def is_masked(layer: Layer) -> bool:
    """Say whether a layer of a fused attention computes only part of all pairs of tokens."""
    shape = layer.shape
    everything = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"]
    return layer.flop < 0.75 * everything
