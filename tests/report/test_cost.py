"""The first screen has the cost of a training, or of a million samples, if the sheets have prices."""

from __future__ import annotations

from dataclasses import replace

from clustersim.report.answer import tiles
from clustersim.report.words import THIN
from clustersim.results import Run
from tests.report.worker_runs import alone, run_of, sweep_of


def cost_of(run: Run) -> tuple[str, str]:
    tile = {tile.label: tile for tile in tiles(sweep_of(run))}["Cost"]
    return tile.value.replace(THIN, " "), tile.note.replace(THIN, " ")


def priced(**changes: float | None) -> Run:
    run = replace(run_of(alone([1.0, 1.0], 4)), iteration_s=2.0, samples_per_s=100.0, time_to_train_s=None)
    return replace(run, **{"iteration_dollars": 0.004, "iteration_joules": 720.0, **changes})  # 0.36 kW


def test_a_million_samples_cost_what_their_iterations_do() -> None:
    assert cost_of(priced()) == ("$20", "for a million samples, at $7.2 an hour; its GPUs use at most 1 kWh")


def test_a_training_costs_what_its_hours_do() -> None:
    assert cost_of(priced(time_to_train_s=20_000.0)) == (
        "$40",
        "to train, at $7.2 an hour; its GPUs use at most 2 kWh",
    )


def test_energy_is_left_out_where_no_sheet_says_and_the_cost_too() -> None:
    assert cost_of(priced(iteration_joules=None))[1] == "for a million samples, at $7.2 an hour"
    assert "Cost" not in {tile.label for tile in tiles(sweep_of(priced(iteration_dollars=None)))}
