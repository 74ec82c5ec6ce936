"""Axes under `sweep`: a grid, zips, and draws that are the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import pytest

from clustersim.errors import Mistake
from clustersim.scenario import Scenario
from clustersim.scenario.draws import drawn
from clustersim.scenario.sweep_keys import DrawRange, SweepDraws
from clustersim.units import parse

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]


def column(scenario: Scenario, key: str) -> list[Any]:
    return [tree.axes[key] for tree in scenario.trees()]


def test_lists_of_a_zip_go_together(load: Load) -> None:
    scenario = load("sweep: {zip: {num_gpus: [2, 4, 8], batch.global: [16, 16, 32]}}\nseed: [1, 2]")
    assert [tuple(axes.items()) for axes, _ in scenario.points()][:4] == [
        (("seed", 1), ("num_gpus", 2), ("batch.global", 16)),
        (("seed", 1), ("num_gpus", 4), ("batch.global", 16)),
        (("seed", 1), ("num_gpus", 8), ("batch.global", 32)),
        (("seed", 2), ("num_gpus", 2), ("batch.global", 16)),
    ]
    assert [point.global_batch for _, point in scenario.points()] == [16, 16, 32] * 2


def test_a_grid_is_what_lists_in_the_keys_are(load: Load) -> None:
    grid = load("sweep: {grid: {num_gpus: [2, 4], strategy.algorithm: [ring, tree]}}")
    lists = load("num_gpus: [2, 4]\nstrategy: {kind: all-reduce, algorithm: [ring, tree]}")
    assert grid.points() == lists.points()


def test_an_axis_replaces_what_the_scenario_has_at_its_key(load: Load) -> None:
    assert load("num_gpus: [1, 2, 4]\nsweep: {grid: {num_gpus: [2, 8]}}").axes == {"num_gpus": [2, 8]}


def test_several_zips_multiply(load: Load) -> None:
    zips = "[{num_gpus: [2, 4], batch.global: [8, 16]}, {seed: [1, 2, 3], replicates: [1, 2, 3]}]"
    assert len(load(f"sweep: {{zip: {zips}}}").points()) == 6


MANY = ", ".join(map(str, range(1, 301)))

DRAWS = (
    "points: {points}, seed: 3, keys: {{num_gpus: {{min: 2, max: 8, step: 2}}, "
    "batch.per_gpu: {{min: 1, max: 64, log: true}}, "
    "topology.link: {{min: 500 Mbit/s, max: 50 Gbit/s, log: true}}, strategy.algorithm: [ring, tree]}}"
)


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_drawn_values_are_in_their_ranges_and_the_points_valid(load: Load, method: str) -> None:
    scenario = load(f"sweep: {{{method}: {{{DRAWS.format(points=40)}}}}}")
    assert set(column(scenario, "num_gpus")) == {2, 4, 6, 8}
    assert {type(each) for each in column(scenario, "batch.per_gpu")} == {int}
    assert set(column(scenario, "batch.per_gpu")) <= set(range(1, 65))
    rates = [parse(text, "rate") * 8 for text in column(scenario, "topology.link")]
    assert 0.5e9 <= min(rates) < 5e9 < max(rates) <= 50e9
    assert all(text.endswith(" Gbit/s") for text in column(scenario, "topology.link"))
    assert set(column(scenario, "strategy.algorithm")) == {"ring", "tree"}
    assert len(scenario.points()) == 40


@pytest.mark.parametrize(
    ("low", "high", "step", "allowed"),
    [
        (1, 16, 5, {1, 6, 11, 16}),
        (1.0, 3.2, 0.5, {1.0, 1.5, 2.0, 2.5, 3.0}),
        (1000.0, 1001.0, 0.25, {1000.0, 1000.25, 1000.5, 1000.75, 1001.0}),
        (0.1, 0.5, 0.1, {0.1, 0.2, 0.3, 0.4, 0.5}),
        ("1 us", "2500 ns", 500, {"1000 ns", "1500 ns", "2000 ns", "2500 ns"}),
    ],
)
def test_draws_with_a_step_are_exact_multiples_of_it_above_the_smallest(
    low: Any, high: Any, step: float, allowed: set[Any]
) -> None:
    (column,) = drawn(SweepDraws(points=100, keys={"x": DrawRange(min=low, max=high, step=step)}), "random")
    assert {column(number) for number in range(100)} == allowed


@pytest.mark.parametrize(
    ("low", "high"), [(99996.0, 100004.0), (1.23456, 1.23459), (0.99991, 9.9998), (-5.0, 0.0), (1e-9, 3e-9)]
)
@pytest.mark.parametrize("is_log", [False, True])
def test_draws_lie_within_their_bounds_and_differ(low: float, high: float, is_log: bool) -> None:
    if is_log and low <= 0:
        return
    bounds = DrawRange(min=low, max=high, log=is_log)
    (column,) = drawn(SweepDraws(points=200, keys={"x": bounds}), "latin-hypercube")
    values = [column(number) for number in range(200)]
    assert low <= min(values) <= max(values) <= high
    assert len(set(values)) > 150


def test_the_first_draws_do_not_depend_on_their_number_nor_on_other_keys(load: Load) -> None:
    few, many = (load(f"sweep: {{random: {{{DRAWS.format(points=each)}}}}}") for each in (5, 20))
    assert [dict(tree.axes) for tree in many.trees()[:5]] == [dict(tree.axes) for tree in few.trees()]
    (alone,) = drawn(SweepDraws(points=5, seed=3, keys={"num_gpus": DrawRange(min=2, max=8, step=2)}), "random")
    assert [alone(number) for number in range(5)] == column(few, "num_gpus")
    assert column(few, "num_gpus") == [2, 4, 6, 4, 6], "the same on every machine"


def test_a_latin_hypercube_has_one_point_in_each_part_of_a_range(load: Load) -> None:
    scenario = load(f"sweep: {{latin-hypercube: {{{DRAWS.format(points=16)}}}}}")
    shares = [log(parse(text, "rate") * 8 / 0.5e9) / log(100) for text in column(scenario, "topology.link")]
    assert sorted(np.floor(np.array(shares) * 16)) == list(range(16))
    assert sorted(column(scenario, "num_gpus")) == [2] * 4 + [4] * 4 + [6] * 4 + [8] * 4


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_equal_draws_are_one_point(load: Load, method: str) -> None:
    draws = "{points: 64, keys: {num_gpus: [1, 2], batch.per_gpu: {min: 16, max: 17}}}"
    found = [dict(tree.axes) for tree in load(f"sweep: {{{method}: {draws}}}").trees()]
    assert len(found) == len({tuple(axes.values()) for axes in found}) == 4


def test_set_replaces_an_axis_of_the_sweep(load: Load) -> None:
    text = "sweep: {zip: {num_gpus: [2, 4], batch.global: [8, 16]}, grid: {seed: [1, 2]}}"
    assert load(text, ("num_gpus=8", "batch.global=64")).axes == {"seed": [1, 2]}
    assert load(text, ("num_gpus=8",)).axes == {"batch.global": [8, 16], "seed": [1, 2]}
    assert load(text, ("seed=[7]",)).axes["seed"] == [7]
    assert load(text, ("sweep.grid.seed=[5, 6]",)).axes["seed"] == [5, 6]


def test_a_measured_run_gives_the_values_of_the_sweep(load: Load) -> None:
    sweep = "sweep: {zip: {num_gpus: [2, 4], batch.global: [8, 16]}}"
    (anchor,) = load(f"{sweep}\nmeasured: {{num_gpus: 4, samples_per_s: 100, set: {{batch.global: 16}}}}").anchors
    assert (anchor.point.num_gpus, anchor.point.global_batch) == (4, 16)


@pytest.mark.parametrize(
    ("sweep", "key", "words"),
    [
        ("{zop: {}}", "sweep.zop", "did you mean 'zip'?"),
        ("{zip: {num_gpus: [1, 2], seed: [1]}}", "sweep.zip", "equal length (got num_gpus 2, seed 1 values)"),
        ("{zip: {num_gpus: [1, 1], seed: [2, 2]}}", "sweep.zip", "num_gpus 1, seed 2 is listed twice"),
        ("{grid: {seed: [2, 2]}}", "sweep.grid.seed", "listed twice"),
        ("{grid: {seed: []}}", "sweep.grid.seed", "at least 1"),
        ("{grid: {seed: [1]}, zip: {seed: [1]}}", "sweep", "'seed' is given more than once"),
        ("{random: {points: 3}}", "sweep.random.keys", "missing"),
        ("{random: {points: 0, keys: {seed: [1]}}}", "sweep.random.points", "at least 1"),
        ("{random: {points: 200000, keys: {seed: [1]}}}", "sweep.random.points", "at most 100,000"),
        ("{random: {points: 3, keys: {seed: {min: 3, max: 1}}}}", "sweep.random.keys.seed", "below the largest"),
        ("{random: {points: 3, keys: {seed: {min: 0, max: 1, log: true}}}}", "sweep.random.keys.seed", "above 0"),
        ("{random: {points: 3, keys: {seed: {min: 1, max: 16, step: 2.5}}}}", "sweep.random.keys.seed", "is whole"),
        ("{random: {points: 3, keys: {seed: {min: 1, max: 4, step: 10}}}}", "sweep.random.keys.seed", "larger than"),
        (
            "{random: {points: 3, keys: {topology.link: {min: 1 Gbit/s, max: 3 us}}}}",
            "sweep.random.keys.topology.link",
            "units of one kind",
        ),
        (
            f"{{grid: {{seed: [{MANY}]}}, random: {{points: 400, keys: {{epochs: {{min: 1.0, max: 9.0}}}}}}}}",
            "sweep.random",
            "more than",
        ),
        ("{grid: {sede: [1, 2]}}", "sede", "did you mean 'seed'?"),
        ("{grid: {num_gpus: [0, 2]}}", "num_gpus", "at least 1"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_refused(mistakes: Mistakes, sweep: str, key: str, words: str) -> None:
    found = mistakes(f"sweep: {sweep}")[0]
    assert (found.key, words in found.message, found.line is not None) == (key, True, True), found


def test_a_point_does_not_carry_the_sweep(load: Load) -> None:
    scenario = load(f"sweep: {{random: {{{DRAWS.format(points=4)}}}}}")
    assert "sweep" not in scenario.trees()[2].root.plain()
