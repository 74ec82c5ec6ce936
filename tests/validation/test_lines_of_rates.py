"""Rates of one GPU at batches that it was not timed with are on the line through those that it was."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

CASES = Path(__file__).parents[2] / "validate"


def rows_of(case: str) -> Sequence[dict[str, str]]:
    with (CASES / case / "measured.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@pytest.mark.parametrize(
    ("case", "timed", "others"),
    [("paddle-fleet", {128: 936.0, 256: 1035.0}, {32, 64}), ("dlperf-deepspeed", {8: 28.15, 16: 29.78}, {4})],
)
def test_an_iteration_is_a_line_in_the_batch(case: str, timed: dict[int, float], others: set[int]) -> None:
    rates = {
        int(row["batch.per_gpu"]): (
            int(row["compute.single_gpu.batch"]),
            float(row["compute.single_gpu.samples_per_s"]),
        )
        for row in rows_of(case)
        if row["compute.single_gpu.samples_per_s"]
    }
    (low, low_s), (high, high_s) = ((batch, batch / rate) for batch, rate in timed.items())
    slope_s = (high_s - low_s) / (high - low)

    assert rates.keys() == timed.keys() | others
    for batch, (of_rate, rate) in rates.items():
        assert of_rate == batch
        assert batch / rate == pytest.approx(low_s + (batch - low) * slope_s, rel=3e-4)
