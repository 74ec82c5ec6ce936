"""Forecast against published: signs, units, and the words of the first screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.answer import answer, rows, tiles, time_rows
from clustersim.report.published import compare, comparisons, draw_published, error_summary, in_unit
from clustersim.report.words import THIN
from clustersim.results import PublishedFigure
from tests.report.synthetic import make_comparison, make_run, make_sweep


@pytest.mark.parametrize(
    ("metric", "forecast", "gain"),
    [("hours", 20.0, 2.0), ("speedup", 20.0, 0.5), ("samples_per_s", 20.0, 0.5), ("efficiency", 0.2, 0.5)],
)
def test_the_error_is_forecast_over_published_less_one(metric, forecast, gain):
    run = replace(make_run(8), time_to_train_s=72000.0, speedup=20.0, samples_per_s=20.0, efficiency=0.2)
    row = compare(make_sweep((8,)), run, PublishedFigure(8, metric, forecast / 2, "A. Author, 2016"))
    assert row.error == pytest.approx(1.0)
    assert row.gain == pytest.approx(gain)


def test_what_is_not_forecast_is_not_compared():
    run = replace(make_run(8), time_to_train_s=None, published=(PublishedFigure(8, "hours", 10.0),))
    assert comparisons(replace(make_sweep((8,)), runs=(run,))) == ()


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("hours", 10.5, "10.5 h"),
        ("speedup", 47.0, "47.0×"),
        ("samples_per_s", 2594.2, "2 594"),
        ("efficiency", 0.37, "37 %"),
    ],
)
def test_published_figures_keep_their_unit(metric, value, text):
    assert in_unit(metric, value).replace(THIN, " ") == text


def test_the_summary_gives_the_worst_and_the_median_error():
    found = comparisons(make_sweep())
    errors = sorted(abs(row.error) for row in found)
    text = error_summary(found).replace(THIN, " ")
    assert f"within {100 * errors[-1]:.0f} % of all 4" in text
    assert f"median {50 * (errors[1] + errors[2]):.0f} %" in text
    assert error_summary(found[:1]).endswith("off the one published figure")


def test_every_point_is_drawn_with_its_error_and_its_source():
    found = comparisons(make_sweep())
    dots = draw_published(found).traces[1]
    assert dots["x"] == pytest.approx([100 * row.error for row in found])
    assert all("FireCaffe, CVPR 2016" in text for text in dots["hovertext"])


def test_the_answer_of_one_run_is_its_rate_and_what_limits_it():
    assert answer(make_sweep((1,))).replace(THIN, " ") == (
        "1 GPU trains 45.7 samples per second; 72 epochs take 23.4 days. Compute takes 100 % of an iteration."
    )
    assert "8 GPUs train" in answer(make_sweep((8,))).replace(THIN, " ")


def test_the_first_screen_gives_interval_and_the_error_against_published_figures():
    found = {tile.label: tile for tile in tiles(make_sweep())}
    assert "95 % interval" in found["Speedup"].note.replace(THIN, " ")
    assert "of all 4 published figures" in found["Model error"].note
    alone = {tile.label: tile for tile in tiles(make_sweep((8,), interval=0.0))}
    assert alone["Samples per second"].note == "one replicate, no interval"
    assert "Model error" not in alone


def test_the_table_leaves_out_what_no_run_has():
    sweep = make_sweep((8,))
    bare = replace(sweep, runs=(replace(sweep.runs[0], speedup=None, time_to_train_s=None),))
    assert rows(bare)[0] == ["GPUs", "iteration", "samples/s", "efficiency"]
    assert rows(make_comparison())[0][:2] == ["GPUs", "kind"]


def test_shares_of_the_iteration_stand_in_the_order_of_the_rows():
    headings, shares = time_rows(make_sweep((1, 8)))
    assert headings == ["compute", "comm.", "waiting"]
    assert shares[0][0].replace(THIN, " ") == "100 %"
