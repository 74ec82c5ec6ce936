"""Rates of fused attention, compared with the charts and the tables that they are fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.attention_rates import (
    A100_FLOP_PER_S,
    AMPERE,
    BLACKWELL,
    H100_FLOP_PER_S,
    HOPPER,
    WIDTHS,
    block_utilisation,
    is_masked,
    pair_share,
    utilisation,
    width_and_keys,
)
from clustersim.kernels.fused_attention import RATES, TAILS, is_fused
from clustersim.model.builder import Builder, Tensor, window_pairs
from clustersim.model.layer import Model
from clustersim.parallelism.pieces import Piece, part_of

# GPU, kernel, width, window, sequences, tokens, heads, microseconds (aiconfigurator-core 0.12.0, vLLM 0.24.0)
WINDOWS = [
    ("gh100-tensor", 3, 64, 128, 8, 2048, 64, 301.6),
    ("gh100-tensor", 3, 64, 128, 2, 16_384, 64, 584.5),
    ("gh100-tensor", 3, 128, 128, 8, 2048, 32, 259.8),
    ("gh100-tensor", 3, 128, 128, 2, 16_384, 32, 510.0),
    ("gh100-tensor", 3, 128, 8192, 8, 12_288, 5, 2261.4),
    ("gb100-tensor", 2, 64, 128, 8, 2048, 64, 228.9),
    ("gb100-tensor", 2, 128, 128, 2, 16_384, 32, 284.2),
    ("gb100-tensor", 2, 128, 8192, 8, 16_384, 5, 1678.6),
    ("ad102-tensor", 2, 64, 128, 4, 8192, 64, 1544.6),
    ("ad102-tensor", 2, 128, 8192, 8, 12_288, 5, 7544.1),
    ("gb202-tensor", 2, 64, 128, 2, 16_384, 64, 1156.7),
    ("gb202-tensor", 2, 128, 8192, 8, 16_384, 5, 7130.3),
]
PEAKS = {"gh100-tensor": 989.4e12, "gb100-tensor": 2250e12, "ad102-tensor": 362.05e12, "gb202-tensor": 503.8e12}
TOKENS = (512, 1024, 2048, 4096, 8192, 16384)

MASKED = {
    (2, 64): (180, 229, 262, 284, 295, 299),
    (2, 128): (191, 260, 298, 319, 333, 335),
    (3, 64): (197, 265, 371, 420, 460, 473),
    (3, 128): (292, 423, 521, 579, 602, 616),
    (9, 64): (225, 288, 334, 363, 379, 388),
    (9, 128): (315, 410, 484, 518, 529, 539),
}
FORWARD = {
    (2, 64): (282, 306, 318, 321, 322, 324),
    (2, 128): (309, 350, 362, 368, 370, 370),
    (3, 64): (333, 392, 460, 476, 496, 497),
    (3, 128): (467, 565, 625, 638, 646, 648),
    (9, 64): (335, 373, 395, 408, 412, 413),
    (9, 128): (497, 574, 617, 609, 600, 595),
}
BACKWARD = {
    (2, 64): (198, 238, 264, 279, 287, 291),
    (2, 128): (214, 260, 291, 310, 318, 322),
    (3, 64): (272, 363, 422, 453, 472, 474),
    (3, 128): (316, 424, 501, 542, 559, 561),
    (9, 64): (266, 348, 395, 417, 432, 433),
    (9, 128): (305, 408, 465, 499, 518, 516),
}
"""TFLOP/s on an H100, by kernel and features of a head (Shah et al., arXiv:2407.08608): forward behind a causal mask,
forward and backward of all pairs. A transcript of the chart's labels; where two readings differ, of cuDNN's and
FlashAttention-3's first bar without a mask, the one that most readings have."""

NOT_READ = 0
TOGETHER = {
    (1, 64, True): (58, 70, 77, 87, 92, 97),
    (1, 64, False): (91, 102, 104, 108, 110, NOT_READ),
    (1, 128, True): (53, 72, 81, 87, 91, NOT_READ),
    (1, 128, False): (74, 91, 95, 95, 98, NOT_READ),
    (2, 64, True): (88, 119, 140, 156, 165, 171),
    (2, 64, False): (132, 162, 171, 175, 176, 176),
    (2, 128, True): (99, 131, 155, 182, 189, 189),
    (2, 128, False): (131, 181, 196, 201, 203, 203),
}
"""TFLOP/s of both passes on an A100, by kernel, features of a head and whether a causal mask is there (Dao,
arXiv:2307.08691, figure 4). A transcript, whose bars of FlashAttention at 16,384 tokens, beside which PyTorch ran out
of memory, are another's; heads of 64 behind a mask are the labels that stand in the figure's file.
"""

CHARTS = [(MASKED, True, True), (FORWARD, True, False), (BACKWARD, False, False)]


def attention(tokens: int, width: int, causal: bool, flash: int) -> Model:
    """Return an attention of 2,048 features, as the charts have it."""
    net = Builder("attention", "attention")
    x = Tensor(2048, tokens)
    net.fused_attention("a", x, x, 2048 // width, causal, flash)
    return net.model()


def test_the_law_is_that_of_the_charts() -> None:
    errors = []
    for bars, is_forward, masked in CHARTS:
        for (kernel, width), speeds in bars.items():
            found = [utilisation(HOPPER[kernel], width, tokens, is_forward, masked) for tokens in TOKENS]
            errors += list(np.array(found) * H100_FLOP_PER_S / 1e12 / speeds - 1)
    assert len(errors) == 108
    assert np.median(np.abs(errors)) < 0.011
    assert np.max(np.abs(errors)) < 0.056


@pytest.mark.parametrize(("bars", "is_forward", "masked"), CHARTS)
def test_constants_are_the_least_squares_of_the_charts(
    bars: dict[tuple[int, int], tuple[int, ...]], is_forward: bool, masked: bool
) -> None:
    """1 / speed is a line of 1 / tokens, fitted to relative errors; limits to 1 TFLOP/s, halves to a token."""
    for (kernel, width), speeds in bars.items():
        line = np.column_stack([np.ones(6), 1 / np.array(TOKENS)]) * np.array(speeds)[:, None]
        base, slope = np.linalg.lstsq(line, np.ones(6), rcond=None)[0]
        stored = HOPPER[kernel][width].of(is_forward, masked)
        assert stored.limit == pytest.approx(1 / base, abs=0.51)
        assert stored.half == pytest.approx(slope / base, abs=0.51)


def read(kernel: int, width: int, masked: bool) -> list[tuple[int, int]]:
    """Return tokens and TFLOP/s of the bars that were read."""
    bars = zip(TOKENS, TOGETHER[kernel, width, masked], strict=True)
    return [(tokens, speed) for tokens, speed in bars if speed != NOT_READ]


def test_the_law_is_that_of_amperes_charts() -> None:
    errors = []
    for kernel, width, masked in TOGETHER:
        for tokens, speed in read(kernel, width, masked):
            found = {utilisation(AMPERE[kernel], width, tokens, is_forward, masked) for is_forward in (True, False)}
            errors.append(found.pop() * A100_FLOP_PER_S / 1e12 / speed - 1)
            assert not found
    assert len(errors) == 45
    assert np.median(np.abs(errors)) < 0.015
    assert np.max(np.abs(errors)) < 0.07


@pytest.mark.parametrize(("kernel", "width", "masked"), TOGETHER)
def test_amperes_constants_are_the_least_squares_of_the_charts(kernel: int, width: int, masked: bool) -> None:
    tokens, speeds = np.array(read(kernel, width, masked)).T
    line = np.column_stack([np.ones(len(tokens)), 1 / tokens]) * speeds[:, None]
    base, slope = np.linalg.lstsq(line, np.ones(len(tokens)), rcond=None)[0]
    stored = AMPERE[kernel][width].of(True, masked)
    assert stored.limit == pytest.approx(1 / base, abs=0.51)
    assert stored.half == pytest.approx(slope / base, abs=0.51)


@pytest.mark.parametrize(("kernel", "width", "masked"), TOGETHER)
def test_layers_take_the_time_that_amperes_charts_have(kernel: int, width: int, masked: bool) -> None:
    for tokens, speed in read(kernel, width, masked):
        model = attention(tokens, width, masked, kernel)
        layers = estimate_layers(model, load_gpu("a100"), 16_384 // tokens, "amp-bf16").layers
        seconds = sum(each.forward_s + each.backward_s for each in layers)
        assert 3.5 * model.flop * (16_384 // tokens) / seconds / 1e12 == pytest.approx(speed, rel=0.075)


@pytest.mark.parametrize("flash", [2, 3, 9])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tokens", TOKENS)
def test_layers_take_the_time_that_the_charts_have(flash: int, width: int, tokens: int) -> None:
    """Of 16,384 tokens on an H100, by way of the kernel model, whose tiles and waves count nothing twice."""
    model = attention(tokens, width, True, flash)
    layers = estimate_layers(model, load_gpu("h100"), 16_384 // tokens, "amp-bf16").layers
    speed = model.flop * (16_384 // tokens) / sum(each.forward_s for each in layers) / 1e12
    assert speed == pytest.approx(MASKED[flash, width][TOKENS.index(tokens)], rel=0.06)


def test_short_sequences_and_narrow_heads_are_slower_and_widths_in_between_are_in_between() -> None:
    for kernel in HOPPER:
        for is_forward in (True, False):
            by_width = [utilisation(HOPPER[kernel], width, 2048, is_forward, True) for width in (32, 64, 96, 128, 256)]
            assert by_width[0] == by_width[1] < by_width[2] < by_width[3] == by_width[4]
            by_tokens = [utilisation(HOPPER[kernel], 128, tokens, is_forward, True) for tokens in TOKENS]
            assert by_tokens == sorted(by_tokens)
            masked, whole = (utilisation(HOPPER[kernel], 128, 2048, is_forward, mask) for mask in (True, False))
            assert masked < whole


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_blocks_of_a_ring_are_the_kernels_that_its_turns_have(blocks: int) -> None:
    """Each turn by itself, with its queries and its keys, summed over the turns of all GPUs."""
    tokens, width, kernel = 4096, 128, 2
    seconds = flop = 0.0
    for rank in range(blocks):
        for turn in range(blocks):
            queries, keys = (tokens, tokens) if turn == 0 else (tokens, tokens // 2)
            if turn > rank:
                queries, keys = tokens // 2, tokens
            own = queries * keys * (0.5 if turn == 0 else 1.0)
            flop += own
            seconds += own / utilisation(HOPPER[kernel], width, keys, True, turn == 0)
    assert block_utilisation(HOPPER[kernel], width, tokens, True, True, blocks) == pytest.approx(
        flop / seconds, rel=1e-12
    )
    unmasked = utilisation(HOPPER[kernel], width, tokens, True, False)
    assert block_utilisation(HOPPER[kernel], width, tokens, True, False, blocks) == unmasked


def test_a_piece_in_a_ring_says_how_many_blocks_it_has() -> None:
    piece = Piece(attention(4096, 128, True, 2).layers[0], False, num_blocks=4, block_bytes=1.0)
    assert piece.block.shape["blocks"] == 4
    assert width_and_keys(piece.block) == (128, 1024)
    assert is_masked(piece.block)


def test_a_mask_is_known_by_its_flop() -> None:
    for causal in (True, False):
        assert [is_masked(each) for each in attention(1024, 64, causal, 2).layers] == [causal, causal]
        assert all(map(is_fused, attention(1024, 64, causal, 2).layers))


TABLE = [
    ("b200", 2, 1, 32, 128, 8192, 0.514),
    ("b200", 2, 4, 32, 128, 4096, 0.549),
    ("b200", 2, 8, 16, 128, 4096, 0.529),
    ("b200", 2, 1, 8, 128, 8192, 0.176),
    ("b200", 2, 1, 64, 64, 16384, 3.005),
    ("h100", 3, 1, 32, 128, 8192, 0.912),
    ("h100", 3, 4, 32, 128, 4096, 1.011),
    ("h100", 3, 1, 8, 128, 8192, 0.221),
    ("a100", 2, 1, 32, 128, 8192, 3.120),
    ("a100", 2, 4, 32, 128, 4096, 3.396),
    ("a100", 2, 1, 8, 128, 8192, 0.906),
]
"""Kernel, samples, heads, features of a head, tokens and milliseconds of forward behind a mask, with the write to a
cache: aiconfigurator-core 0.12.0, context_attention of vLLM 0.24.0 (A100: 0.14.0)."""


@pytest.mark.parametrize(("gpu", "flash", "batch", "heads", "width", "tokens", "milliseconds"), TABLE)
def test_rows_of_the_tables_are_met(
    gpu: str, flash: int, batch: int, heads: int, width: int, tokens: int, milliseconds: float
) -> None:
    seconds = forward_s(gpu, batch, heads, tokens, flash, width)
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.2)


def forward_s(gpu: str, batch: int, heads: int, tokens: int, flash: int = 2, width: int = 128) -> float:
    net = Builder("attention", "attention")
    x = Tensor(heads * width, tokens)
    net.fused_attention("a", x, x, heads, True, flash)
    layers = estimate_layers(net.model(), load_gpu(gpu), batch, "amp-bf16").layers
    return sum(each.forward_s for each in layers)


@pytest.mark.parametrize("gpu", ["a100", "h100", "b200"])
def test_half_the_heads_take_more_than_half_the_time_where_there_are_few(gpu: str) -> None:
    few, more = forward_s(gpu, 1, 4, 8192), forward_s(gpu, 1, 8, 8192)
    assert 0.5 * more < few < more
    many, twice = forward_s(gpu, 4, 32, 8192), forward_s(gpu, 4, 64, 8192)
    assert many == pytest.approx(0.5 * twice, rel=0.01)


def test_a_tail_is_none_from_the_blocks_of_the_charts_on_and_longer_behind_a_mask() -> None:
    for tail in TAILS.values():
        assert tail.factor(2048, 4096, True) == tail.factor(4096, 4096, True) == 1.0
        assert tail.factor(64, 8192, True) > tail.factor(64, 8192, False) > tail.factor(128, 8192, False) > 1.0


def test_backward_on_blackwell_keeps_the_ratio_of_one_measurement() -> None:
    """SimuMax's B200 by the wall clock, 8 shapes with heads of 128 features: 0.748 to 0.871 of forward's share."""
    for tokens in (4096, 32_768, 131_072):
        forward, backward = (utilisation(BLACKWELL[2], 128, tokens, is_forward, True) for is_forward in (True, False))
        assert 0.748 < backward / forward < 0.871


@pytest.mark.parametrize(("chip", "kernel", "width", "window", "batch", "tokens", "heads", "measured_us"), WINDOWS)
def test_a_window_takes_about_what_was_measured_though_nothing_is_fitted(
    chip: str, kernel: int, width: int, window: int, batch: int, tokens: int, heads: int, measured_us: float
) -> None:
    pairs = window_pairs(tokens, window)
    share, blocks = pairs / tokens**2, batch * heads * -(-tokens // 128)
    speed = PEAKS[chip] * utilisation(RATES[chip][kernel], width, tokens, True, True, share)
    seconds = 4 * batch * heads * width * pairs / speed * TAILS[chip].factor(blocks, tokens, True, share)
    assert seconds * 1e6 == pytest.approx(measured_us, rel=0.28)
    whole = (
        4
        * batch
        * heads
        * width
        * tokens**2
        / 2
        / PEAKS[chip]
        / utilisation(RATES[chip][kernel], width, tokens, True, True)
    )
    assert seconds < whole


def windowed(window: int, tokens: int = 8192, heads: int = 8, width: int = 128) -> Model:
    net = Builder("w", "w")
    query = Tensor(heads * width, tokens)
    net.fused_attention("a", query, query, heads, causal=True, pairs=window_pairs(tokens, window))
    return net.model()


def test_a_window_as_long_as_the_sequence_is_a_causal_mask_and_shorter_ones_take_less() -> None:
    gpu = load_gpu("h100")
    net = Builder("w", "w")
    net.fused_attention("a", Tensor(1024, 8192), Tensor(1024, 8192), 8, causal=True)
    causal = estimate_layers(net.model(), gpu, 2, "amp-bf16").layers
    assert [each.forward_s for each in estimate_layers(windowed(8192), gpu, 2, "amp-bf16").layers] == [
        each.forward_s for each in causal
    ]
    times = [
        sum(each.forward_s + each.backward_s for each in estimate_layers(windowed(size), gpu, 2, "amp-bf16").layers)
        for size in (64, 512, 2048, 8000, 8191, 8192)
    ]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(times[-2], rel=1e-2)


def test_the_share_of_a_part_of_the_heads_is_that_of_the_whole_and_rounds_to_a_half() -> None:
    third = part_of(windowed(8192, heads=9).layers[0], "count", 3)
    assert pair_share(third) == 0.5
    assert is_masked(third)
    assert pair_share(replace(third, flop=0.0)) == 0.5
    assert pair_share(windowed(1024).layers[0]) == pytest.approx(0.125 - 0.125**2 / 2)


def test_values_may_be_narrower_than_keys() -> None:
    """As in latent attention: the scores have the keys' features, the context the values'."""
    net = Builder("w", "w")
    query, value = Tensor(4 * 192, 64), Tensor(4 * 128, 64)
    y = net.fused_attention("a", query, query, 4, causal=True, value=value)
    scores, context = net.model().layers
    assert (scores.flop, context.flop) == (4 * 192 * 64**2, 4 * 128 * 64**2)
    assert y.channels == 4 * 128
    assert context.input_elements == value.elements
    assert [width_and_keys(each)[0] for each in (scores, context)] == [192, 128]
    assert all(map(is_fused, (scores, context)))
