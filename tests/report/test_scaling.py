"""The scaling curve: its ideal, its published points, its interval, its title."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.rates import draw_rates
from clustersim.report.scaling import draw_scaling, scaling_data, scaling_title
from clustersim.report.words import THIN
from tests.report.synthetic import make_comparison, make_sweep


def test_a_line_has_the_runs_numbers():
    sweep = make_sweep()
    (line,) = scaling_data(sweep).lines
    assert line.num_gpus == [1, 32, 128]
    assert line.rate == [run.speedup for run in sweep.runs]
    assert line.efficiency == [run.efficiency for run in sweep.runs]


def test_the_ideal_line_is_what_efficiency_one_would_give():
    sweep = make_sweep()
    (slope,) = scaling_data(sweep).ideal
    for run in sweep.runs:
        assert run.speedup == pytest.approx(run.efficiency * slope * run.num_gpus, rel=1e-9)


def test_lines_of_different_single_gpu_rates_have_an_ideal_each():
    sweep = make_comparison()
    runs = tuple(
        replace(run, efficiency=run.efficiency / 2) if run.axes["strategy.kind"] == "server" else run
        for run in sweep.runs
    )
    first, second = scaling_data(replace(sweep, runs=runs)).ideal
    assert second == pytest.approx(2 * first, rel=1e-9)


def test_a_published_speedup_stands_at_its_own_value():
    values = {point.rate for point in scaling_data(make_sweep()).points if "speedup" in point.text.partition("<br>")[2]}
    assert any(value == pytest.approx(47.0) for value in values)
    assert any(value == pytest.approx(20.0) for value in values)


def test_published_hours_lie_off_the_line_by_the_factor_of_the_hours():
    sweep = make_sweep()
    run = sweep.runs[-1]
    hours = next(point for point in scaling_data(sweep).points if "10.5" in point.text)
    assert hours.rate / run.speedup == pytest.approx(run.time_to_train_s / 3600 / 10.5, rel=1e-9)


def test_without_speedups_the_curve_is_in_samples_per_second():
    sweep = make_sweep()
    data = scaling_data(replace(sweep, runs=tuple(replace(run, speedup=None) for run in sweep.runs)))
    assert data.metric == "samples_per_s"
    assert data.lines[0].rate == [run.samples_per_s for run in sweep.runs]


def test_the_interval_is_drawn_where_there_is_one_and_nowhere_else():
    (line,) = scaling_data(make_sweep(interval=0.04)).lines
    assert line.low[0] is None
    assert line.low[2] == pytest.approx(0.96 * line.rate[2])
    assert any("interval" in trace["name"] for trace in draw_scaling(scaling_data(make_sweep())).traces)
    without = draw_scaling(scaling_data(make_sweep(interval=0.0))).traces
    assert not any("interval" in trace["name"] for trace in without)


@pytest.mark.parametrize(
    ("sizes", "title"),
    [
        ((1,), "One GPU gives a speedup of 1.01×"),
        ((8,), "One size only: 8 GPUs give a speedup of 7.39×"),
        ((1, 8), "8 GPUs give a speedup of 7.39×, at 91 % efficiency"),
    ],
)
def test_the_title_is_the_finding(sizes, title):
    assert scaling_title(make_sweep(sizes)).replace(THIN, " ") == title


def test_with_rivals_the_title_compares_the_best_and_the_worst():
    assert "server" in scaling_title(make_comparison())
    equal = replace(make_comparison(), runs=tuple(replace(run, samples_per_s=100.0) for run in make_comparison().runs))
    assert "equally fast" in scaling_title(equal)


def test_series_differ_by_hue_and_by_marker():
    traces = [
        trace for trace in draw_scaling(scaling_data(make_comparison())).traces if trace["mode"] == "lines+markers"
    ]
    assert len({(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in traces}) == 2


def test_axes_have_equal_decades_and_units():
    layout = draw_scaling(scaling_data(make_sweep())).layout
    assert (layout["xaxis"]["type"], layout["yaxis"]["type"]) == ("log", "log")
    assert (layout["yaxis"]["scaleanchor"], layout["yaxis"]["scaleratio"]) == ("x", 1)
    assert layout["xaxis2"]["title"]["text"] == "GPUs"


def test_one_size_with_several_settings_is_drawn_in_rows_the_fastest_on_top():
    sweep = make_comparison()
    data = scaling_data(replace(sweep, runs=tuple(run for run in sweep.runs if run.num_gpus == 32)))
    assert data.one_size
    figure = draw_rates(data)
    assert figure.layout["yaxis"]["ticktext"] == ["all-reduce", "server"]
    assert [trace["x"][0] for trace in figure.traces] == [line.rate[0] for line in data.lines]


def test_a_line_that_covers_another_is_dashed():
    sweep = make_comparison()
    overlapping = [replace(run, axes={**run.axes, "strategy.kind": "same"}) for run in sweep.runs[:3]]
    data = scaling_data(replace(sweep, runs=(*sweep.runs, *overlapping)))
    drawn = {trace["name"]: trace for trace in draw_scaling(data).traces if trace["mode"] == "lines+markers"}
    assert {name for name, trace in drawn.items() if trace["line"].get("dash") == "dash"} == {"same"}
    assert drawn["same"]["marker"]["symbol"].endswith("-open")
