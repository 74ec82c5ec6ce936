"""The tool that fills batches with sentences: its rules from make_batches.cpp, and its shipped output."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.script import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(ROOT / "tools" / "sentence_batches.py")


@pytest.fixture(scope="module")
def drawn(tool: ModuleType) -> np.ndarray:
    lengths: np.ndarray = tool.draw_lengths(1_500_000, seed=2)
    return lengths


def test_a_batch_is_full_before_the_pair_that_would_make_it_too_large_and_holds_a_multiple_of_eight(
    tool: ModuleType,
) -> None:
    # 16 of 6 are 96 tokens, and one of 8 makes it 17 of 8; then 12 of 8 would fit, but for the multiple.
    pairs = np.array([[6, 5]] * 16 + [[8, 3]] * 20)
    batches = tool.make_batches(pairs, 100)
    assert [len(batch) for batch in batches] == [16, 8, 12]
    assert batches[0].max(axis=0).tolist() == [6, 5]


def test_pairs_left_over_by_the_multiple_begin_the_next_batch(tool: ModuleType) -> None:
    batches = tool.make_batches(np.full((30, 2), 10), 110)  # 11 fit, 8 go
    assert [len(batch) for batch in batches] == [8, 8, 8, 6]
    assert sum(map(len, batches)) == 30


def test_no_batch_holds_more_tokens_than_asked_for_and_none_of_its_pairs_is_lost(
    tool: ModuleType, drawn: np.ndarray
) -> None:
    batches = tool.make_batches(drawn, 5120)
    assert max(len(batch) * batch.max() for batch in batches) <= 5120
    assert np.concatenate(batches).sum() == drawn.sum()


def test_pairs_of_equal_length_on_both_sides_are_equal_work(tool: ModuleType) -> None:
    batches = tool.make_batches(np.full((800, 2), 20), 1000)
    assert tool.work(batches[:-1]) == pytest.approx(np.ones(len(batches) - 1))


def test_a_target_half_as_long_leaves_half_of_the_decoder_s_work(tool: ModuleType) -> None:
    even, short = np.full((8, 2), 20), np.tile([20, 10], (8, 1))
    even_work, short_work = tool.work([even, short])
    decoder = 1 - tool.ENCODER_SHARE
    assert short_work / even_work == pytest.approx(1 - decoder / 2)


def test_a_batch_of_mlperf_holds_as_many_pairs_as_its_logs_say(tool: ModuleType, drawn: np.ndarray) -> None:
    """10,240 words hold 327 sentences (clustersim/model/catalogue/transformer_big.py), which was not fitted to."""
    batches = tool.make_batches(drawn, 10240)[:-1]
    assert sum(map(len, batches)) / len(batches) == pytest.approx(327, rel=0.01)


@pytest.mark.parametrize(("column", "max_tokens"), [(0, 2560), (1, 5120), (2, 10240)])
def test_the_shipped_work_of_batches_is_what_the_tool_makes(
    tool: ModuleType, drawn: np.ndarray, column: int, max_tokens: int
) -> None:
    file = ROOT / "validate" / "nvidia-pytorch" / "transformer-batches.csv"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert lines[0].split(",")[column] == f"batch_{max_tokens}"
    shipped = np.array([float(line.split(",")[column]) for line in lines[1:]])
    assert shipped.mean() == pytest.approx(1, abs=2e-3)
    made = tool.quantiles(tool.work(tool.make_batches(drawn, max_tokens)[:-1]), 20)
    assert shipped.reshape(20, -1).mean(axis=1) == pytest.approx(made, abs=0.02)


def test_the_slowest_of_eight_takes_seven_to_eleven_per_cent_longer_than_the_mean(tool: ModuleType) -> None:
    """E max of n equal draws is the sum over quantiles q of (q**n - before**n) x; narrower batches spread more."""
    lines = (ROOT / "validate" / "nvidia-pytorch" / "transformer-batches.csv").read_text().splitlines()
    columns = np.array([[float(cell) for cell in line.split(",")] for line in lines[3:]])
    edge = np.linspace(0, 1, len(columns) + 1) ** 8
    slowest = np.diff(edge) @ columns
    assert slowest == pytest.approx([1.107, 1.079, 1.070], abs=2e-3)
