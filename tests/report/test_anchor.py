"""Measured runs in the table and on the page."""

from __future__ import annotations

from dataclasses import replace

from clustersim.report.anchor import anchor_card, anchor_lines
from clustersim.report.answer import tiles
from clustersim.report.report import report_html
from clustersim.report.table import lines_below
from clustersim.report.text_table import plain
from clustersim.report.words import THIN
from clustersim.results import Anchor, MeasuredNetwork, MeasuredPoint, Sweep
from tests.report.synthetic import make_sweep
from tests.report.test_table import printed

POINTS = (
    MeasuredPoint(8, "samples_per_s", 1000.0, 1200.0, 1000.0, 0.07, {"batch.per_gpu": 4}, "us, <today>"),
    MeasuredPoint(16, "iteration_s", 0.25, 0.2, 0.26, None),
)
NETWORK = MeasuredNetwork("nccl", ("all_reduce_perf.log",), 7, 0.01, 0.2, {"efficiency": (1.0, 0.8)})


def anchored(anchor: Anchor) -> Sweep:
    sweep = make_sweep((8, 16))
    runs = (replace(run, anchor=anchor, provenance={"anchored": 1.0}) for run in sweep.runs)
    return replace(sweep, runs=tuple(runs))


SWEEP = anchored(Anchor(1.2, 0.02, 4321.0, 0.3, POINTS))


def test_the_table_has_each_forecast_without_the_anchor_and_the_lines_below_the_runs() -> None:
    text = "\n".join(printed(SWEEP, 200))
    assert text.count("no anchor") == 2
    assert "4 321" in text
    *_, first, eight, sixteen = map(plain, lines_below(SWEEP))
    assert first == (
        "Anchored on 2 measured runs: kernels take 1.20× their time from other sources and iterations 20.0 ms more."
    )
    assert "8 GPUs (batch.per_gpu 4): measured 1 000 samples/s" in eight
    assert "without the anchor 1 200 samples/s (+20%); from the other runs +7.0%" in eight
    assert "measured 250 ms, forecast 260 ms (+4.0%)" in sixteen
    assert "other runs" not in sixteen


def test_the_page_has_the_anchor_escaped_and_on_the_first_screen() -> None:
    html = report_html(SWEEP)
    assert "us, &lt;today&gt;" in html
    assert "is scaled to the measured runs of the scenario" in html
    (tile,) = (each for each in tiles(SWEEP) if each.label == "Anchor")
    assert (tile.value, tile.note.replace(THIN, " ")) == ("kernels 1.20×", "4 321 samples/s without measured runs")


def test_a_fitted_network_is_told_with_its_constants() -> None:
    alone = anchored(Anchor(1.0, 0.0, 4321.0, 0.3, (), NETWORK))
    (line,) = anchor_lines(alone)
    assert "nccl with efficiency 0.8 (was 1)" in line
    assert "Anchor" not in [tile.label for tile in tiles(alone)]
    assert "efficiency 0.8 (was 1)" in anchor_card(alone)
    both = anchored(Anchor(1.2, 0.0, 4321.0, 0.3, POINTS, NETWORK))
    assert "network by measured collectives: nccl" in anchor_lines(both)[0]


def test_a_sweep_without_measured_runs_says_nothing() -> None:
    plain = make_sweep((8,))
    assert anchor_lines(plain) == []
    assert anchor_card(plain) == ""
    assert "no anchor" not in "\n".join(printed(plain, 200))


def test_csv_has_the_factor() -> None:
    row = SWEEP.to_rows()[0]
    assert (row["anchor_factor"], row["anchor_fixed_s"], row["samples_per_s_without_anchor"]) == (1.2, 0.02, 4321.0)
    assert "anchor_factor" not in make_sweep((8,)).to_rows()[0]
