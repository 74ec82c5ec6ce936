"""The frontier has the layouts that no other beats, the best and the rule of thumb by name, and a table of all."""

from __future__ import annotations

from dataclasses import replace

from clustersim.plan_report.frontier import (
    FrontierPoint,
    cost_data,
    draw_frontier,
    labelled,
    memory_data,
    pareto,
)
from clustersim.plan_report.times import times_data
from clustersim.report.words import THIN
from tests.plan_report.synthetic import entry, make_comparison, make_plan

ONE, TWO = make_plan(8), make_plan(16, factor=0.6, gpu="b200")


def test_the_frontier_is_what_no_other_point_beats() -> None:
    points = [
        FrontierPoint(str(place), x, y, "") for place, (x, y) in enumerate([(3, 5), (1, 1), (2, 4), (2, 3), (4, 5)])
    ]
    kept = pareto(points)
    assert kept == (1, 2, 0)
    for place, point in enumerate(points):
        beaten = any(each.across <= point.across and each.rate >= point.rate for each in points if each is not point)
        assert beaten is (place not in kept)


def test_memory_has_every_simulated_layout_and_the_limit_of_the_gpu() -> None:
    data = memory_data(labelled(ONE))
    (line,) = data.lines
    assert [(point.across, round(point.rate)) for point in line.points] == [(60, 64_000), (30, 58_182), (40, 51_200)]
    assert line.frontier == (1, 0)
    assert line.limit == 80
    assert [point.is_best for point in line.points] == [True, False, False]
    assert [point.is_rule for point in line.points] == [False, False, True]
    assert data.title.replace(THIN, " ") == "91 % of the best rate takes 30.0 GB instead of 60.0 GB: data 8, zero-3"


def test_a_rule_that_was_not_simulated_has_a_point_too() -> None:
    rule = entry(2.0, 70e9, data=1, tensor=8)
    (line,) = memory_data(labelled(make_plan(rule_of_thumb=rule))).lines
    assert [point.is_rule for point in line.points] == [False, False, False, True]


def test_the_cost_of_one_cluster_is_folded_and_without_prices_left_out() -> None:
    data = cost_data(labelled(ONE))
    assert data is not None
    assert data.quiet == "All these layouts cost the same an hour, so the fastest is the cheapest."
    assert cost_data(labelled(make_plan(gpu_dollars_per_hour=None))) is None


def test_two_layouts_are_no_frontier() -> None:
    plan = make_plan(rule_of_thumb=None, simulated=make_plan().best)
    assert memory_data(labelled(plan)).quiet == "Too few layouts were simulated."
    assert memory_data(labelled(ONE)).quiet == ""


def test_clusters_share_one_frontier_of_cost() -> None:
    data = cost_data(labelled(make_comparison(ONE, TWO)))
    assert data is not None
    assert not data.quiet
    assert data.shared == ((0, 0), (1, 0))
    assert all(not line.frontier for line in data.lines)
    assert data.title.replace(THIN, " ") == (
        "The cheapest layout costs $0.104 per million tokens on 8 h100; the fastest, on 16 b200, 20 % more"
    )


def test_one_plan_of_several_sizes_has_a_frontier_of_cost() -> None:
    sizes = (*ONE.simulated, *make_plan(16, factor=0.6).simulated)
    data = cost_data(labelled(replace(ONE, simulated=sizes)))
    assert data is not None
    assert not data.quiet
    assert data.shared == ((0, 0), (0, 3))
    assert data.title.replace(THIN, " ") == (
        "The cheapest layout costs $0.104 per million tokens on 8 GPUs; the fastest, on 16 GPUs, 20 % more"
    )


def test_the_drawing_names_the_layouts_and_has_a_table_of_all() -> None:
    figure = draw_frontier(memory_data(labelled(make_comparison(ONE, TWO))))
    named = {trace["name"]: trace for trace in figure.traces if trace.get("name") in ("best", "rule of thumb")}
    assert {name: len(trace["x"]) for name, trace in named.items()} == {"best": 2, "rule of thumb": 2}
    assert len({trace["marker"]["symbol"] for trace in named.values()}) == 2
    clouds = [trace for trace in figure.traces if trace["mode"] == "markers" and trace["name"] not in named]
    assert [trace["name"] for trace in clouds] == ["8 h100", "16 b200"]
    assert "<b>8 h100: data 8, zero-3</b>" in clouds[0]["hovertext"][1]
    assert figure.table is not None
    assert list(figure.table.headings[:2]) == ["cluster", "layout"]
    assert len(figure.table.rows) == 6
    assert [row[-2:] for row in figure.table.rows[:3]] == [["yes", "best"], ["yes", ""], ["no", "rule of thumb"]]


def test_a_limit_far_from_all_layouts_does_not_squeeze_them() -> None:
    near, far = make_plan(), make_plan(gpu_memory_bytes=600e9)
    assert draw_frontier(memory_data(labelled(near))).layout["xaxis"]["range"][1] > 80
    assert draw_frontier(memory_data(labelled(far))).layout["xaxis"]["range"][1] < 70


def test_the_time_of_the_best_stands_beside_that_of_the_rule() -> None:
    data = times_data(labelled(ONE))
    assert data.runs == ["1. data 8", "2. data 8, zero-3", "rule of thumb: data 4 x pipeline 2, 1f1b"]
    assert data.iteration_s == [1.0, 1.1, 1.25]
    assert data.title.replace(THIN, " ") == (
        "With the best layout, exposed communication takes 10 % of each iteration; "
        "with the rule of thumb's, exposed communication takes 10 % of each iteration"
    )
    several = times_data(labelled(make_comparison(ONE, TWO)))
    assert several.runs[0] == "8 h100: data 8"
    assert several.title.startswith("With 8 h100, ")
