"""Rates of fused attention kernels on Ampere and later, by head width and sequence length.

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

Blackwell's and Ada's rates are fitted to tables of forward passes behind a mask in CUDA graphs
(aiconfigurator-core 0.12.0, PyPI, NVIDIA, context_attention; `tools/attention_fit.py`): B200 (TensorRT-LLM's kernel in
SGLang 0.5.14 and vLLM 0.24.0), L40S and RTX PRO 6000 (FlashAttention-2 in vLLM 0.24.0). The rows include the write of
keys and values to a cache, whose cost is fitted too and dropped. Assumed: without a mask the limit is the same and
`half` smaller as on Hopper (FlashAttention-3) and Ampere. Backward has `BACKWARD` of the forward limit.

The charts have 2,048 blocks of queries. Fewer blocks fill a GPU badly at the end of a kernel (`Tail`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from clustersim.model.layer import Layer

WIDTHS = (64, 128)
"""Head widths, in features, that the charts have."""

CAUSAL = 0.5
"""The share of all pairs of tokens that a causal mask leaves."""
_ROUNDING = 1e-6

QUERIES = 128
"""Queries of one head that a multiprocessor processes together, one block."""

REFERENCE_BLOCKS = 2048
"""Blocks of queries in the charts: 16 heads of 128 features and 16,384 tokens."""

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


B200_FLOP_PER_S, L40S_FLOP_PER_S, RTX_PRO_6000_FLOP_PER_S = 2250e12, 362.05e12, 503.8e12
"""Dense peaks in 16 bits that the tables' rates are divided by."""

BACKWARD = 0.836, 0.847
"""Share of the peak of backward over that of forward, on Blackwell and on Ada: the median of 8 shapes on a B200 with
heads of 128 features, of 64 heads and more or of 32,768 tokens and more (0.75 to 0.87), and an A100's at 64 heads,
assumed for Ada (MooreThreads/SimuMax, commit 4dcaae51, TransformerEngine by the wall clock, of which only this ratio is
taken).
"""


def _table(limit: float, half: float, unmasked: float, backward: float, peak: float) -> PassRates:
    """Return the rates of a table's fit: `unmasked` is `half` of all pairs over `half` behind a mask (assumed)."""
    whole = Rate(limit, unmasked * half, peak)
    return PassRates(Rate(limit, half, peak), whole, whole._replace(limit=backward * limit))


BLACKWELL: Mapping[int, RatesByWidth] = {
    2: {
        64: _table(767, 964, 0.34, BACKWARD[0], B200_FLOP_PER_S),
        128: _table(1290, 962, 0.35, BACKWARD[0], B200_FLOP_PER_S),
    },
}
"""On a B200; all newer kernels have this rate. A B300, whose exponentials are faster, takes 22 % less."""

ADA: Mapping[int, RatesByWidth] = {
    2: {
        64: _table(171, 576, 0.34, BACKWARD[1], L40S_FLOP_PER_S),
        128: _table(177, 87, 0.53, BACKWARD[1], L40S_FLOP_PER_S),
    },
}
"""On an L40S."""

BLACKWELL_RTX: Mapping[int, RatesByWidth] = {
    2: {
        64: _table(270, 599, 0.34, BACKWARD[1], RTX_PRO_6000_FLOP_PER_S),
        128: _table(284, 224, 0.53, BACKWARD[1], RTX_PRO_6000_FLOP_PER_S),
    },
}
"""On an RTX PRO 6000, whose chip (GB202) has no tensor memory and runs Ampere's kernels."""


class Tail(NamedTuple):
    """A chip's multiprocessors, and the share of its last block of queries that overlaps with nothing."""

    num_multiprocessors: int
    share: float

    def factor(self, blocks: float, tokens: float, is_masked: bool, share: float = CAUSAL) -> float:
        """Return the factor by which a kernel of fewer blocks of queries takes longer.

        The longest block takes 1 / blocks of the work, up to twice that behind a mask, on one of n multiprocessors;
        behind a mask that leaves a `share` of all pairs, the keys of the longest over those of a mean query.

            1 + share x n x longest x (1 / blocks - 1 / REFERENCE_BLOCKS), at least 1

        >>> round(Tail(132, 0.28).factor(8 * 32, 4096, True), 2)
        1.25
        """
        of_head = -(-tokens // QUERIES)
        longest = _reach(share) / share * of_head / (of_head + 1) if is_masked else 1.0
        return 1 + self.share * self.num_multiprocessors * longest * max(0.0, 1 / blocks - 1 / REFERENCE_BLOCKS)


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


def utilisation(
    rates: RatesByWidth, width: int, tokens: int, is_forward: bool, is_masked: bool, share: float = CAUSAL
) -> float:
    """Return the share of the peak that a kernel reaches at this head width and sequence length.

    `share` are the pairs of tokens that a mask leaves: half of all, or fewer behind a window (`_in_window`).

    >>> round(utilisation(HOPPER[2], 128, 8192, True, True) * 989.4)
    335
    """
    if is_masked and share < CAUSAL:
        narrow, wide = (_in_window(rates[each], tokens, is_forward, share) for each in WIDTHS)
    else:
        narrow, wide = (rates[each].of(is_forward, is_masked).at(tokens) for each in WIDTHS)
    part = (min(max(width, WIDTHS[0]), WIDTHS[1]) - WIDTHS[0]) / (WIDTHS[1] - WIDTHS[0])
    return narrow + part * (wide - narrow)


def _in_window(rates: PassRates | BothPasses, tokens: int, is_forward: bool, share: float) -> float:
    """Return the share of the peak behind a causal mask with a window.

    A query has `share` x tokens keys in the mean. What is lost is, in keys, that of the start of a block without a mask
    and that of its edges: at the diagonal as behind a causal mask, and for queries that are further on than the window
    as much again at its other edge.
    """
    masked, whole = rates.of(is_forward, True), rates.of(is_forward, False)
    edge = max(0.0, masked.half / 2 - whole.half)
    lost = masked.half / 2 + edge * (1 - _reach(share))
    return masked._replace(half=lost).at(share * tokens)


def _reach(share: float) -> float:
    """Return the window's tokens over those of the sequence, from the share of all pairs that it leaves.

    >>> _reach(0.5), round(_reach(0.25 - 0.25**2 / 2), 6)
    (1.0, 0.25)
    """
    return 1.0 - math.sqrt(max(0.0, 1.0 - 2.0 * share))


def block_utilisation(
    rates: RatesByWidth,
    width: int,
    tokens: int,
    is_forward: bool,
    masked: bool,
    blocks: int,
    share: float = CAUSAL,
) -> float:
    """Return the mean share of the peak over all steps of ring attention, each with a block of `tokens`.

    With a causal mask only a GPU's own block is masked, 1 in `blocks`. Of all others, half have all queries and half
    of a block's keys, and half have half of the queries and all keys, without a mask (`AttnFuncWithCPAndKVP2P` of
    TransformerEngine, context_parallel.py).

    >>> round(block_utilisation(HOPPER[2], 128, 16_384, True, True, 1) * 989.4), round(
    ...     block_utilisation(HOPPER[2], 128, 16_384, True, True, 32) * 989.4)
    (343, 372)
    """
    own = utilisation(rates, width, tokens, is_forward, masked, share)
    if not masked:
        return own
    half, whole = (utilisation(rates, width, keys, is_forward, False) for keys in (tokens // 2 or 1, tokens))
    return blocks / (1 / own + (blocks - 1) * 0.5 * (1 / half + 1 / whole))


def width_and_keys(layer: Layer) -> tuple[int, int]:
    """Return the head width and the number of keys of a sequence, from either layer of a fused attention."""
    first, second = layer.shape["inputs"], layer.shape["outputs"]
    return (second, first) if layer.output_elements else (first, second)


DOCUMENT = "document"
"""Key in the shape of a fused attention of packed documents: tokens of a sequence with as many pairs per token."""


def document_share(layer: Layer) -> float:
    """Return the share of all pairs of tokens that are within documents, if these are packed (`packing`)."""
    return layer.shape.get(DOCUMENT, keys := width_and_keys(layer)[1]) / keys


def is_masked(layer: Layer) -> bool:
    """Say whether a layer of a fused attention computes only part of all pairs of tokens (of each document)."""
    return pair_share(layer) < 0.75


def pair_share(layer: Layer) -> float:
    """Return the share of all pairs of tokens (of each document) that a fused attention computes.

    It is at most half if masked. What is left of a half by rounding is a half, and so is nothing: a layer without FLOP.
    """
    shape = layer.shape
    everything = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"] * document_share(layer)
    share, rounding = layer.flop / everything, 1 / shape[DOCUMENT] if DOCUMENT in shape else _ROUNDING
    return CAUSAL if CAUSAL - rounding < share < 0.75 or not share else share
