"""Grouping of runs into series, their labels, and the headline run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.choosing import choosing_data
from clustersim.report.scaling import scaling_title
from clustersim.report.series import axis_value, headline, largest, run_label, runs_with_figures, series, varied
from clustersim.report.words import THIN
from tests.report.synthetic import make_comparison, make_sweep


def test_sizes_alone_make_one_unnamed_line():
    (line,) = series(make_sweep())
    assert line.label == ""
    assert [run.num_gpus for run in line.runs] == [1, 32, 128]


def test_another_axis_makes_a_line_for_each_of_its_values():
    sweep = make_comparison()
    assert varied(sweep) == ("strategy.kind",)
    assert [line.label for line in series(sweep)] == ["all-reduce", "server"]


def test_an_axis_with_one_value_names_nothing():
    sweep = make_comparison()
    only = type(sweep)(sweep.version, sweep.scenario, sweep.seed, sweep.runs[:3])
    assert run_label(only, only.runs[0]) == f"8{THIN}GPUs"


def test_the_headline_is_the_fastest_run_of_the_largest_size():
    sweep = make_comparison()
    assert headline(sweep).axes == {"num_gpus": 128, "strategy.kind": "all-reduce"}
    assert [run.axes["strategy.kind"] for run in largest(sweep)] == ["all-reduce", "server"]


def test_runs_with_figures_are_the_headline_then_its_rivals_then_smaller_sizes():
    sweep = make_comparison()
    found = [(run.num_gpus, run.axes["strategy.kind"]) for run in runs_with_figures(sweep, 4)]
    assert found == [(128, "all-reduce"), (128, "server"), (32, "all-reduce"), (32, "server")]


def test_runs_of_several_models_are_compared_within_the_first() -> None:
    """Samples of different models are not comparable."""
    sweep = make_comparison()
    runs = [
        replace(run, axes={**run.axes, "model": model}, samples_per_s=run.samples_per_s * factor)
        for model, factor in (("long", 1.0), ("short", 16.0))
        for run in sweep.runs
    ]
    several = replace(sweep, runs=tuple(runs))
    assert headline(several).axes["model"] == "long"
    assert [run.axes["strategy.kind"] for run in largest(several)] == ["all-reduce", "server"]
    assert {run.axes["model"] for run in runs_with_figures(several, 100)} == {"long", "short"}
    assert len(runs_with_figures(several, 100)) == len(runs)
    assert scaling_title(several).endswith(" the throughput of server, long")
    assert choosing_data(several).note == "Only runs of long are compared."


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("strategy.overlap", False, "overlap off"),
        ("compression", None, "no compression"),
        ("strategy.bound", 3, "bound 3"),
        ("strategy.n", 4, "n=4"),
        ("parallelism.offload", "optimizer", "offload optimizer"),
        ("software.context_method", "all-gather", "context method all-gather"),
        ("parallelism.schedule", "1f1b", "1f1b"),
        ("placement", {"kind": "fragmented", "free": 0.1}, "fragmented free 0.1"),
        ("stragglers", [], "no stragglers"),
        ("stragglers", [{"kind": "lognormal", "cv": 0.03}], "lognormal cv 0.03"),
    ],
)
def test_values_of_axes_can_stand_alone(key, value, words):
    assert axis_value(key, value) == words
