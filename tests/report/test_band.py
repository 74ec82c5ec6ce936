"""The band of a forecast stands in the sentence, the tiles, the table, the figure and the CSV file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.answer import answer, rows, tiles
from clustersim.report.band import band_basis, band_cell, band_lines, band_sentence
from clustersim.report.rates import draw_rates
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.sections import band
from clustersim.report.words import THIN
from clustersim.results import Sweep
from clustersim.results.band import Band
from tests.report.synthetic import make_comparison, make_sweep

CHECKED = Band(0.9, (80.0, 120.0), (95.0, 104.0), "megatron, estimated", 11)
UNLIKE = replace(CHECKED, class_name="all", sources=17, unchecked=("architecture ada", "layout stages"))
GUESSED = replace(CHECKED, assumed=("bytes_per_s of a link",))


def with_bands(sweep: Sweep, found: Band | None) -> Sweep:
    return replace(sweep, runs=tuple(replace(run, band=found) for run in sweep.runs))


def plain(text: str) -> str:
    return text.replace(THIN, " ")


def test_the_sentence_and_a_tile_have_the_band() -> None:
    sweep = with_bands(make_sweep((8,)), CHECKED)
    assert "samples per second (90 % band 80 to 120), a speedup of 7.39× over one" in plain(answer(sweep))
    tile = {plain(tile.label): tile for tile in tiles(sweep)}["90 % band"]
    assert tile.value == "80 to 120"
    assert "between 80 and 120 samples/s with a probability of 90 %, and between 95 and 104" in plain(
        band_sentence(sweep.runs[0])
    )
    assert plain(tile.note) == "checked forecasts of the class megatron, estimated, 11 sources"


def test_what_was_never_checked_is_called_so_everywhere() -> None:
    sweep = with_bands(make_sweep((8,)), UNLIKE)
    words = (
        "never checked: no checked forecast has architecture ada or layout stages; band of all forecasts, 17 sources"
    )
    assert "(never checked, 90 % band 80 to 120)" in plain(answer(sweep))
    assert [plain(line) for line in band_lines(sweep)] == [f"90% band: {words}"]
    assert band_cell(sweep.runs[0]) == "80–120 ?"
    assert "never checked" in band(sweep.runs[0])
    assert "Never checked: no checked forecast" in band(sweep.runs[0])
    assert sweep.to_rows()[0]["band_unchecked"] == "architecture ada; layout stages"


def test_rates_that_are_guesses_are_named() -> None:
    assert plain(band_basis(GUESSED)).endswith(
        "11 sources; wider, because these rates are assumed: bytes_per_s of a link"
    )


def test_the_table_has_a_column_and_a_line_for_each_basis() -> None:
    sweep = make_comparison()
    found = [CHECKED, CHECKED, UNLIKE, *[None] * len(sweep.runs)]
    sweep = replace(sweep, runs=tuple(replace(run, band=found[place]) for place, run in enumerate(sweep.runs)))
    headings, body = rows(sweep)
    place = headings.index("90% band")
    assert headings[place - 1] == "samples/s"
    assert sorted(cells[place] for cells in body)[:2] == ["80–120", "80–120"]
    assert {"80–120 ?", "–"} <= {cells[place] for cells in body}
    assert len(band_lines(sweep)) == 2


def test_without_a_band_there_is_no_column_and_the_page_says_so() -> None:
    sweep = make_sweep((8,))
    assert "90% band" not in rows(sweep)[0]
    assert band_lines(sweep) == []
    assert band_sentence(sweep.runs[0]) == ""
    assert "No band" in band(sweep.runs[0])
    assert "band" not in answer(sweep)
    assert sweep.to_rows()[0]["band_level"] is None


def test_the_csv_has_the_ends_of_the_band() -> None:
    row = with_bands(make_sweep((8,)), GUESSED).to_rows()[0]
    assert (row["band_samples_per_s_low"], row["band_samples_per_s_high"]) == (80.0, 120.0)
    assert (row["band_half_low"], row["band_half_high"]) == (95.0, 104.0)
    assert (row["band_class"], row["band_sources"], row["band_assumed"]) == (
        "megatron, estimated",
        11,
        "bytes_per_s of a link",
    )


def test_the_curve_has_the_band_in_the_unit_of_its_axis() -> None:
    sweep = with_bands(make_sweep((1, 8, 32)), CHECKED)
    data = scaling_data(sweep)
    run = sweep.runs[1]
    assert run.speedup is not None
    assert data.lines[0].band[1] == pytest.approx(
        (80 * run.speedup / run.samples_per_s, 120 * run.speedup / run.samples_per_s)
    )
    figure = draw_scaling(data)
    assert any(trace["name"].endswith(", band") for trace in figure.traces)
    assert "the pale band holds 90 % of measurements" in plain(figure.subtitle)
    assert not any(trace["name"].endswith(", band") for trace in draw_scaling(scaling_data(make_sweep())).traces)


def test_whiskers_of_single_points_are_the_band() -> None:
    sweep = make_comparison()
    single = replace(sweep, runs=tuple(run for run in sweep.runs if run.num_gpus == sweep.runs[-1].num_gpus))
    data = scaling_data(with_bands(single, CHECKED))
    figure = draw_rates(data)
    pair = sorted(data.lines, key=lambda line: -line.rate[0])[0].band[0]
    bars = figure.traces[0]["error_x"]
    assert pair is not None
    assert figure.traces[0]["x"][0] + bars["array"][0] == pytest.approx(pair[1])
    assert "whiskers hold 90 % of measurements" in plain(figure.subtitle)
