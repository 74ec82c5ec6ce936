"""A sweep as the output of a notebook's cell."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

import clustersim
from clustersim.results.html import sweep_html
from tests.report.synthetic import make_comparison, make_sweep


class Frames(HTMLParser):
    """Collects the attributes of every frame."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.found.append(dict(attributes))


def test_a_sweep_is_shown_as_its_report_in_a_frame() -> None:
    sweep = make_comparison()
    (frame,) = Frames(sweep._repr_html_()).found
    page = frame["srcdoc"] or ""
    assert page.replace('<base href="about:srcdoc">', "", 1) == clustersim.report_html(sweep)


def test_scripts_of_the_frame_cannot_reach_the_notebook() -> None:
    (frame,) = Frames(make_comparison()._repr_html_()).found
    assert (frame["sandbox"] or "").split() == ["allow-scripts", "allow-downloads"]
    assert "src" not in frame


def test_below_the_frame_is_the_table_for_notebooks_that_show_none() -> None:
    sweep = make_comparison()
    assert sweep_html(sweep) in sweep._repr_html_().split("<iframe")[0]


def test_a_name_never_ends_the_frame() -> None:
    sweep = replace(make_sweep(), scenario={"name": "it's \"<b>' onload='x"})
    (frame,) = Frames(sweep._repr_html_()).found
    assert "onload" not in frame
    assert frame["title"] == "report of it's \"<b>' onload='x"


def test_a_sweep_without_runs_is_an_empty_table() -> None:
    empty = replace(make_sweep(), runs=())
    assert "<iframe" not in empty._repr_html_()
    assert repr(empty) == "<Sweep 'synthetic-googlenet': 0 runs>"


class Printer:
    """The part of IPython's printer that is used: `stack` has an object and what it is part of."""

    def __init__(self, stack: list[int]) -> None:
        self.printed, self.stack = "", stack

    def text(self, text: str) -> None:
        self.printed += text


def test_a_console_shows_the_table_and_a_list_one_line() -> None:
    sweep, alone, within = make_sweep(), Printer([1]), Printer([1, 2])
    sweep._repr_pretty_(alone, cycle=False)
    assert alone.printed == clustersim.report_text(sweep).rstrip()
    sweep._repr_pretty_(within, cycle=False)
    assert within.printed == repr(sweep)
    assert repr(sweep) == "<Sweep 'synthetic-googlenet': 3 runs, 1 to 128 GPUs>"
    assert repr(make_sweep((8,))) == "<Sweep 'synthetic-googlenet': 1 run, 8 GPUs>"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_text_of_a_report_fits_its_columns(columns: int) -> None:
    text = clustersim.report_text(make_comparison(), columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" not in text
