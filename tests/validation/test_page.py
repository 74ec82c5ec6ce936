"""Figures of a made-up verdict, in numbers; and the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.validation.figures import by_case_data, by_size_data, curves_data, draw_by_size, scatter_data
from clustersim.validation.figures.marks import clipped, marks, size_axis, status
from clustersim.validation.markdown import validation_page
from clustersim.validation.page import validation_html
from clustersim.validation.verdict import CaseVerdict, Compared, Skipped, Verdict, worst_first


def point(num_gpus: int, simulated: float, measured: float, **other: object) -> Compared:
    kinds = {"strategy": "all-reduce", "transport": "nccl", "num_gpus": num_gpus, "num_hosts": 1, "model": "nin"}
    values = {
        "metric": "samples_per_s",
        "num_gpus": num_gpus,
        "role": "prediction",
        "simulated": simulated,
        "measured": measured,
        "unit": "images/s",
        "error": simulated / measured - 1.0,
        "provenance": "read",
        "where": "a <table>",
        "label": "ring",
        "note": "",
        "scenario": "scenario",
        "settings": {"num_gpus": str(num_gpus)},
        "line": 2,
        "features": kinds,
        **other,
    }
    return Compared(**values)


@pytest.fixture
def verdict() -> Verdict:
    good = CaseVerdict(
        "good", "Near", (point(1, 100, 100, role="calibration"), point(8, 808, 800), point(16, 1500, 1600))
    )
    bad = CaseVerdict("bad", "Far & off", (point(8, 3000, 1000), point(8, 9, 10, provenance="stated")))
    none = CaseVerdict("none", "Shown", (point(2, 1, 2, metric="time_s", unit="s", role="calibration"),))
    return Verdict("0", worst_first([good, none, bad]), (Skipped("bad", "num_gpus=64: it broke"),))


def test_the_worst_case_is_first_and_those_without_a_score_last(verdict: Verdict) -> None:
    assert [case.name for case in verdict.cases] == ["bad", "good", "none"]
    assert by_case_data(verdict).rows == [0, 0, 1, 1, 1, 2]
    assert by_case_data(verdict).medians == [pytest.approx(2.0), pytest.approx(0.03625), None]


def test_each_point_is_scored_or_calibrates_or_is_only_shown(verdict: Verdict) -> None:
    found = [status(each) for case in verdict.cases for each in case.points]
    assert found == ["scored", "shown only", "calibrates", "scored", "scored", "calibrates"]
    points = by_case_data(verdict).points
    traces = marks(points, [0.0] * len(points), [0.0] * len(points))
    assert {trace["name"]: len(trace["x"]) for trace in traces} == {"scored": 3, "calibrates": 2, "shown only": 1}


def test_the_scatter_goes_metric_by_metric_the_most_scored_first(verdict: Verdict) -> None:
    first, second = scatter_data(verdict)
    assert (first.metric, first.num_scored, len(first.points)) == ("samples_per_s", 3, 5)
    assert first.within == pytest.approx(2 / 3)
    assert (second.metric, second.within) == ("time_s", None)


def test_errors_by_size_have_the_median_of_each_size(verdict: Verdict) -> None:
    data = by_size_data(verdict)
    assert data is not None
    assert (data.sizes, data.medians) == ([8, 16], [pytest.approx(1.005), pytest.approx(0.0625)])
    assert draw_by_size(data).title.startswith("The median error is largest at 8")
    assert by_size_data(Verdict("0", verdict.cases[2:])) is None


def test_sizes_are_marked_at_powers_of_two() -> None:
    assert size_axis([3, 30, 32])["tickvals"] == [4, 8, 16, 32]
    assert size_axis([3])["tickvals"] == [3]


def test_an_error_beyond_the_figure_is_at_its_edge() -> None:
    assert (clipped(3.0), clipped(-0.25)) == (100.0, -25.0)


def test_a_curve_needs_two_sizes(verdict: Verdict) -> None:
    (curves,) = curves_data(verdict)
    assert (curves.case, [len(line.points) for line in curves.lines]) == ("good", [3])


def test_the_page_escapes_texts_and_lists_what_was_skipped(verdict: Verdict) -> None:
    html = validation_html(verdict)
    assert "a &lt;table&gt;" in html
    assert "Far &amp; off" in html
    assert "it broke" in html
    assert "3\u202fpredicted figures of 2\u202fcases" in html


def test_the_markdown_has_a_row_for_each_point_and_says_which_do_not_count(verdict: Verdict) -> None:
    text = validation_page(verdict)
    assert text.count("| samples_per_s |") == 5
    assert "| calibrates |" in text
    assert "stated, not scored" in text
    assert "**Skipped**: bad: num_gpus=64: it broke" in text


def test_the_markdown_has_the_residuals_of_what_calibrates_the_worst_first(verdict: Verdict) -> None:
    section = validation_page(verdict).partition("## What calibrates\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| [")]
    assert rows == [
        "| [none](#none) | collectives | 1 | 50.0% | 50.0% | -50.0% |",
        "| [good](#good) | one GPU | 1 | 0.0% | 0.0% | +0.0% |",
    ]


def test_pages_mark_cases_chosen_after_errors_and_give_the_score_without(verdict: Verdict) -> None:
    assert "\N{DAGGER}" not in validation_page(verdict).partition("## All cases")[2]
    marked = replace(verdict, cases=tuple(replace(case, is_chosen_after=case.name == "bad") for case in verdict.cases))
    text = validation_page(marked)
    assert "| [bad](#bad) \N{DAGGER} | Far & off |" in text
    assert "Without \N{DAGGER}: 2 points, median error 3.6%" in text
    assert "| all without \N{DAGGER} |  | 2 | 3.6% |" in text
    assert "bad \N{DAGGER}" in validation_html(marked)
    assert marked.summary(is_chosen_after=True).num_points == 1
