"""The verdict as a page of the documentation, and as the error budget that forecasts quote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.results.budget import BudgetPoint, Kind
from clustersim.validation.text import chosen_lines, number_text, percent_text, summary_cells, summary_text
from clustersim.validation.verdict import CHOSEN_AFTER_MARK, CaseVerdict, Compared, Verdict

_INTRODUCTION = """\
# How right the forecasts are

This page is written by `clustersim validate --markdown docs/validation.md` (`make validation`); tests hold its
measured figures to the cases, and its simulated ones in the quickest cases. Every figure is one that somebody else
measured and published; `validate/<case>/source.md` says on what hardware, what was given to the simulator, and what
it leaves out. Error is simulated / measured - 1.

What calibrates is decided by rule: rates of a single GPU, and microbenchmarks of links and collectives. These
figures stand under *calibrates* and are never scored, and nothing is fitted to a figure that is. What is only
recalled, or stated by its source without having been measured, is shown and not scored either. In the overall
figures every case weighs the same however many points it has; the overall median is that of the cases' medians.
Orderings are pairs of ways to synchronise, alike in all else, that differ by more than 5 % as measured.

The cases were chosen by what could be read of published sources, not by how they come out. Where a forecast is off,
the case says why as far as that is known.

\N{DAGGER} marks the cases of which something (a setting, or a mechanism put into the simulator for their sake) was
chosen after their errors had been seen; their `source.md` says what. Nothing was fitted to them either, but they are
no blind forecasts, so the overall figures are given without them as well. The simulator itself went on being written
while all cases could be seen.
"""


SPEEDS = ("samples_per_s", "iteration_s", "update_s", "time_to_train_s", "speedup", "efficiency")
"""Metrics of how fast a training is as a whole, whose errors forecasts quote."""


def validation_page(verdict: Verdict) -> str:
    """Return the page in Markdown."""
    lines = [_INTRODUCTION, *_summary(verdict)]
    for case in verdict.cases:
        lines += ["", *_case(case)]
    return "\n".join(lines) + "\n"


def budget_points(verdict: Verdict) -> list[BudgetPoint]:
    """Return the scored points of how fast a training is, in the order of the cases' names and of their tables."""
    cases = sorted(verdict.cases, key=lambda case: case.name)
    return [
        BudgetPoint(case.name, Kind(**point.features), point.error)
        for case in cases
        for point in case.points
        if point.is_scored and point.metric in SPEEDS
    ]


def _summary(verdict: Verdict) -> Iterator[str]:
    yield "## All cases"
    yield ""
    yield f"Predicted: {summary_text(verdict.summary())}."
    yield from (f"{line[0].upper()}{line[1:]}." for line in chosen_lines(verdict))
    yield f"Calibration: {summary_text(verdict.calibration())}."
    yield ""
    rows = [
        [
            case.marked_name.replace(case.name, f"[{case.name}](#{case.name})"),
            case.title,
            *summary_cells(case.summary()),
        ]
        for case in verdict.cases
    ]
    rows.append(["all cases", "", *summary_cells(verdict.summary())])
    if any(case.is_chosen_after for case in verdict.cases):
        blind = verdict.summary(is_chosen_after=False)
        rows.append([f"all without {CHOSEN_AFTER_MARK}", "", *summary_cells(blind)])
    yield from _table(["case", "what", "points", "median", "90th", "bias", "orderings"], rows)
    for each in verdict.skipped:
        yield f"\n**Skipped**: {each.case}: {each.reason}"


def _case(case: CaseVerdict) -> Iterator[str]:
    yield f"## {case.name}"
    yield ""
    yield f"[{case.title}](../validate/{case.name}/source.md): {summary_text(case.summary())}."
    yield ""
    headings = ["GPUs", "what", "metric", "simulated", "measured", "unit", "error", ""]
    yield from _table(headings, [_cells(point) for point in case.points])


def _cells(point: Compared) -> list[str]:
    remark = (
        "calibrates" if point.role == "calibration" else "" if point.is_scored else f"{point.provenance}, not scored"
    )
    numbers = [number_text(point.simulated), number_text(point.measured), point.unit, percent_text(point.error)]
    return [str(point.num_gpus), point.label.replace("|", "\\|"), point.metric, *numbers, remark]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{' --- |' * len(headings)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
