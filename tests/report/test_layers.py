"""Figures of layers, ranks and staleness: sums, titles, and no figure without data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.layers import draw_layers, layers_data
from clustersim.report.ranks import draw_ranks, ranks_data
from clustersim.report.staleness import draw_staleness, staleness_data
from clustersim.report.words import THIN
from clustersim.results import staleness_summary
from tests.report.synthetic import make_run, make_sweep


def test_layers_are_drawn_longest_first_and_the_rest_is_summed_up_below():
    sweep = make_sweep((8,))
    run = sweep.runs[0]
    data = layers_data(sweep, run, max_layers=10)
    totals = [bar.total_s for bar in data.bars]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) + data.rest.total_s == pytest.approx(sum(row[2] + row[3] for row in run.layers))
    assert draw_layers(data).note.startswith(f"Not drawn: 47{THIN}other layers, together")
    assert draw_layers(layers_data(sweep, run, max_layers=57)).note == ""


def test_the_title_counts_the_layers_that_take_half_the_time():
    sweep = make_sweep((8,))
    small = tuple((f"small_{name}", "relu", 0.1, 0.2, "measured", 0.0) for name in "abcde")
    rows = (("big", "convolution", 1.0, 2.0, "measured", 4.0), *small)
    data = layers_data(sweep, replace(sweep.runs[0], layers=rows))
    assert data.title.replace(THIN, " ") == "Half of the compute time is in 1 of 6 layers; big alone takes 67 %"


def test_layers_that_differ_in_their_numbers_alone_are_one_bar():
    sweep = make_sweep((8,))
    rows = tuple((f"h.{number}.{name}2", "linear", forward_s, 0.2, "estimated", 4.0)
                 for number in range(8) for name, forward_s in (("mlp", 0.3), ("out", 0.1)))  # fmt: skip
    other = ("h.8.mlp2", "linear", 0.2, 0.2, "estimated", 4.0)
    data = layers_data(sweep, replace(sweep.runs[0], layers=(*rows, other)))
    assert [(bar.name, bar.number) for bar in data.bars] == [("h.*.mlp2", 8), ("h.*.out2", 8), ("h.8.mlp2", 1)]
    assert sum(bar.total_s for bar in data.bars) == pytest.approx(sum(row[2] + row[3] for row in (*rows, other)))
    assert data.title.replace(THIN, " ") == (
        "Half of the compute time is in 1 of 3 kinds of layers; h.*.mlp2 (8 layers) alone takes 59 %"
    )
    assert draw_layers(data).layout["yaxis"]["ticktext"][0] == "h.*.mlp2 (8×)"
    assert data.quiet == ""
    only = layers_data(sweep, replace(sweep.runs[0], layers=rows[::2]))
    assert draw_layers(only).quiet == "All compute is in layers of one kind."


def test_layers_are_hatched_by_provenance():
    sweep = make_sweep((8,))
    figure = draw_layers(layers_data(sweep, sweep.runs[0]))
    shapes = set(figure.traces[0]["marker"]["pattern"]["shape"])
    assert {"/", "."} <= shapes
    assert "hatched: estimated" in figure.subtitle
    assert "measured" not in figure.subtitle


def test_a_run_without_layers_has_no_figure_of_them():
    sweep = make_sweep((8,))
    assert layers_data(sweep, replace(sweep.runs[0], layers=())) is None


def test_ranks_that_do_not_differ_are_not_drawn():
    sweep = make_sweep((8,))
    run = replace(sweep.runs[0], worker_breakdown_s=(sweep.runs[0].worker_breakdown_s[0],) * 8)
    assert ranks_data(sweep, run) is None
    assert ranks_data(sweep, make_run(1)) is None


def test_ranks_that_hardly_differ_are_quiet():
    sweep = make_sweep((8,))
    run = sweep.runs[0]
    first = dict(run.worker_breakdown_s[0])

    def data_of(share: float):
        slow = {**first, "compute": first["compute"] + share * run.iteration_s}
        return ranks_data(sweep, replace(run, worker_breakdown_s=(first, slow)))

    assert draw_ranks(data_of(0.02)).quiet.replace(THIN, " ") == "Ranks differ by no more than 2.0 % of an iteration."
    assert draw_ranks(data_of(0.2)).quiet == ""


def test_averaging_neighbours_keeps_the_mean_of_every_part():
    sweep = make_sweep((64,))
    run = sweep.runs[0]
    each, pairs = ranks_data(sweep, run), ranks_data(sweep, run, max_bars=32)
    assert pairs.ranks_per_bar == 2
    for part, seconds in each.parts_s.items():
        assert sum(pairs.parts_s[part]) / 32 == pytest.approx(sum(seconds) / 64)
    assert pairs.labels[1] == "ranks 2 to 3"
    assert "mean of 2 neighbours" in draw_ranks(pairs).subtitle


def test_the_title_names_a_rank_that_is_slow_for_long():
    sweep = make_sweep((32,))
    assert ranks_data(sweep, sweep.runs[0]).title.startswith("Rank 17 computes")


def test_ranks_that_are_slow_in_turn_are_not_blamed():
    rows = tuple({"compute": 1.0, "waiting": 0.1 + 0.001 * rank, "communication_exposed": 0.1} for rank in range(40))
    sweep = make_sweep((8,))
    title = ranks_data(sweep, replace(sweep.runs[0], iteration_s=1.2, worker_breakdown_s=rows)).title
    assert title.startswith("No rank is always slow")


def test_fresh_gradients_have_no_histogram():
    sweep = make_sweep((8,))
    assert staleness_data(sweep, sweep.runs[0]) is None


def test_the_histogram_of_staleness_sums_to_all_gradients():
    sweep = make_sweep((8,))
    run = replace(sweep.runs[0], staleness=staleness_summary([0, 1, 1, 2, 7, 7]))
    data = staleness_data(sweep, run)
    assert "3.0 versions old" in data.title
    assert sum(draw_staleness(data).traces[0]["y"]) == pytest.approx(100.0)
