"""Time breakdown: sums of bars, and titles with the largest part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.breakdown import breakdown_data, breakdown_title, draw_breakdown, draw_shares, overhead
from clustersim.report.figures import FIGURES
from clustersim.report.words import THIN
from tests.report.synthetic import make_comparison, make_sweep


def test_the_parts_of_each_bar_sum_to_the_iteration():
    data = breakdown_data(make_sweep())
    for number, total in enumerate(data.iteration_s):
        assert sum(seconds[number] for seconds in data.parts_s.values()) == pytest.approx(total, rel=1e-9)


def test_parts_that_are_always_zero_are_left_out():
    assert set(breakdown_data(make_sweep()).parts_s) == {"compute", "communication_exposed", "waiting"}


def test_bars_of_shares_are_all_as_long_as_a_hundred_per_cent():
    figure = draw_shares(breakdown_data(make_sweep()))
    lengths = [sum(values) for values in zip(*(t["x"] for t in figure.traces if t["type"] == "bar"), strict=True)]
    assert lengths == pytest.approx([100.0] * 3)


def test_bars_of_seconds_are_as_long_as_the_iterations():
    data = breakdown_data(make_sweep((32, 128)))
    figure = draw_breakdown(data)
    lengths = [sum(values) for values in zip(*(t["x"] for t in figure.traces if t["type"] == "bar"), strict=True)]
    unit = 1e-3 if "(ms)" in figure.subtitle else 1.0
    assert [length * unit for length in lengths] == pytest.approx(data.iteration_s)


def test_shares_come_first_where_the_iterations_differ_much():
    assert FIGURES["breakdown"].make(make_sweep((1, 128)))[0].label == "shares"
    assert FIGURES["breakdown"].make(make_sweep((64, 128)))[0].label == "seconds"


def test_the_title_names_the_largest_part_beside_computing():
    sweep = make_sweep()
    share = sweep.runs[-1].breakdown_s["communication_exposed"] / sweep.runs[-1].iteration_s
    title = breakdown_title(sweep).replace(THIN, " ")
    assert title == f"At 128 GPUs, exposed communication takes {100 * share:.0f} % of each iteration"


def test_the_title_of_one_gpu_says_that_all_is_computing():
    run = make_sweep((1,)).runs[0]
    alone = replace(run, breakdown_s={**dict.fromkeys(run.breakdown_s, 0.0), "compute": run.iteration_s})
    assert overhead(alone) is None
    assert breakdown_title(replace(make_sweep((1,)), runs=(alone,))).endswith("each iteration is 100\u202f% compute")


def test_the_title_of_a_small_overhead_says_how_much_is_computing():
    run = make_sweep((8,)).runs[0]
    parts = {**dict.fromkeys(run.breakdown_s, 0.0), "compute": 0.98 * run.iteration_s, "input": 0.02 * run.iteration_s}
    assert "98" in breakdown_title(replace(make_sweep((8,)), runs=(replace(run, breakdown_s=parts),)))


def test_with_rivals_the_title_gives_the_share_of_each():
    title = breakdown_title(make_comparison())
    assert "with all-reduce" in title
    assert "with server" in title


def test_where_the_fastest_only_computes_the_title_says_what_the_slowest_does():
    sweep = make_comparison()
    runs = [
        replace(run, breakdown_s={**dict.fromkeys(run.breakdown_s, 0.0), "compute": run.iteration_s})
        if run.axes["strategy.kind"] == "all-reduce"
        else run
        for run in sweep.runs
    ]
    server = runs[-1]
    share = server.breakdown_s["communication_exposed"] / server.iteration_s
    assert breakdown_title(replace(sweep, runs=tuple(runs))).replace(THIN, " ") == (
        "At 128 GPUs, each iteration with all-reduce is 100 % compute; "
        f"with server, {100 * share:.0f} % is exposed communication"
    )


def test_rows_of_one_size_are_called_by_their_settings_alone():
    sweep = make_comparison()
    largest = replace(sweep, runs=tuple(run for run in sweep.runs if run.num_gpus == 128))
    assert breakdown_data(largest).runs == ["all-reduce", "server"]
    assert breakdown_data(sweep).runs[0].replace(THIN, " ") == "8 GPUs, all-reduce"
