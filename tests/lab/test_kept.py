"""The stored campaign: compared again without running it, and as a case of `clustersim validate`."""

from __future__ import annotations

import pytest

from clustersim.validation import load_case, load_cases, own_cases, shipped_cases
from validate.lab.case import Case
from validate.lab.document import read_campaign
from validate.lab.kept import CAMPAIGN, FOLDER, case_files
from validate.lab.learning import GROUP
from validate.lab.score import GATES, LEAST_LINE_S, Compared, compare, judge

DOCUMENT, CASES = read_campaign(FOLDER / CAMPAIGN)
FITTED_AT = {"100 Mbit/s", "200 Mbit/s"}
"""Rates at which the constants of the gloo sheet were set."""


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare(CASES)


def test_every_group_meets_its_limits(compared: list[Compared]) -> None:
    groups = {each.group: each for each in judge(compared)}
    assert set(GATES) - {GROUP} < set(groups)
    assert {name: each.missed for name, each in groups.items() if each.missed} == {}


def test_every_kind_of_experiment_is_there() -> None:
    asked = [case.ask for case in CASES]
    assert {ask["collective"] for ask in asked if "collective" in ask} == {
        *("all-reduce", "broadcast", "all-gather", "reduce-scatter"),
    }
    ours = {ask["algorithm"] for ask in asked if ask.get("collective") == "all-reduce"}
    assert ours == {"auto", "server", "tree", "ring", "halving-doubling"}
    kinds = {ask["strategy"]["kind"] for ask in asked if "strategy" in ask}
    assert kinds == {"all-reduce", "server", "backup", "async", "bounded-staleness"}
    shared = {(ask["topology"]["kind"], ask["topology"]["sharing"]) for ask in asked if "flows" in ask}
    assert shared == {
        *(("star", "max-min"), ("torus", "max-min"), ("star", "proportional"), ("torus", "proportional")),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_was_measured_at_a_rate_that_set_a_constant(case: Case) -> None:
    assert case.ask["topology"]["link"] not in FITTED_AT
    assert case.line_s >= LEAST_LINE_S or case.group in ("servers", "asynchronous server")


def test_the_files_of_the_case_are_those_of_the_campaign() -> None:
    written = case_files(DOCUMENT, CASES)
    found = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir() if path.suffix in (".yaml", ".csv")}
    assert found == written


def test_the_case_has_a_row_for_every_figure_that_is_no_flow() -> None:
    figures = sum(len(case.figures) + (len(case.staleness) > 1) for case in CASES if "flows" not in case.ask)
    rows = load_case(FOLDER).rows
    assert len(rows) == figures
    assert {row.role for row in rows} == {"prediction"}


def test_validate_and_the_campaign_give_equal_figures(compared: list[Compared]) -> None:
    from clustersim.validation import validate

    (verdict,) = validate([str(FOLDER)], workers=1).cases
    by_name = {(row.name, row.metric): row for row in compared}
    for point in verdict.points:
        if point.metric != "staleness.mean":
            name = point.label.partition(", ")[2]  # after the scenario's
            simulated = by_name[name, point.metric].simulated
            assert simulated is not None
            assert point.simulated == pytest.approx(1e3 * simulated, rel=1e-9), point.label


def test_the_case_is_asked_for_by_name_and_counts_in_no_overall_score() -> None:
    assert own_cases() == {"lab": FOLDER}
    assert "lab" not in shipped_cases()
    assert "lab" not in {case.name for case in load_cases()}
    assert [case.name for case in load_cases(["lab"])] == ["lab"]


def test_the_case_says_what_it_is() -> None:
    text = (FOLDER / "source.md").read_text("utf-8")
    assert all(word in text for word in ("**Hardware.**", "**What calibrates.**", "**What is predicted.**", "left out"))
