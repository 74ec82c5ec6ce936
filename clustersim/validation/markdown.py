"""The verdict as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from clustersim.validation.anchored import AnchoredGroup, AnchoredVerdict
from clustersim.validation.anchored_text import anchored_lines, group_cells, group_headings
from clustersim.validation.score import summarise
from clustersim.validation.text import chosen_lines, number_text, percent_text, summary_cells, summary_text
from clustersim.validation.verdict import CHOSEN_AFTER_MARK, CaseVerdict, Compared, Verdict

_INTRODUCTION = """\
# Accuracy of the forecasts

This page is written by `clustersim validate --markdown docs/validation.md` (`make validation`); tests compare its
measured figures with the cases, and its simulated figures with the simulator for the quickest cases. All figures were
measured and published by others; `validate/<case>/source.md` describes the hardware, the inputs of the simulator, and
what it leaves out. The error is simulated / measured - 1.

A rule decides what calibrates: rates of a single GPU, and microbenchmarks of links and collectives. These figures are
marked *calibrates* and are never scored, and nothing is fitted to a scored figure. Figures that are only recalled, or
stated by their source without a measurement, are shown and not scored. In the overall figures every case has equal
weight, however many points it has; the overall median is the median of the cases' medians. Orderings are pairs of
synchronization methods, equal in all else, whose measured figures differ by more than 5 %.

Cases were chosen by which published sources could be read, not by their results. If a forecast is wrong, the case
gives the reason as far as it is known.

\N{DAGGER} marks cases in which something (a setting, or a mechanism that was added to the simulator for them) was
chosen after their errors had been seen; their `source.md` describes it. Nothing was fitted to them either, but they
are not blind forecasts, so the overall figures are also given without them. Development of the simulator continued
while all cases could be seen.
"""


RESIDUALS_FILE = Path(__file__).with_name("residuals.md")
"""Errors of kernels, collectives and the host on what was not fitted, as `tools/residuals.py` wrote them."""


def validation_page(verdict: Verdict, anchored: AnchoredVerdict | None = None) -> str:
    """Return the page in Markdown, with a section on anchored forecasts where these are given."""
    lines = [_INTRODUCTION, *_summary(verdict), "", RESIDUALS_FILE.read_text(encoding="utf-8").rstrip()]
    lines += ["", *_calibration(verdict)]
    lines += ["", *_anchored(anchored)] if anchored is not None else []
    for case in verdict.cases:
        lines += ["", *_case(case)]
    return "\n".join(lines) + "\n"


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
    yield from table(["case", "what", "points", "median", "90th", "bias", "orderings"], rows)
    for each in verdict.skipped:
        yield f"\n**Skipped**: {each.case}: {each.reason}"


_CALIBRATES = """\
## What calibrates

Figures that calibrate are inputs, and count in no score. Here they are compared with what the simulator makes of them,
so that a poor fit is seen too. A rate of one GPU that the scenario states is met exactly. Other rates of one GPU are
forecast from published rates of another batch, another precision or another GPU of the same kind. Times of collectives
are forecast with constants that were fitted to all sources together, but for the case's own."""

_OF_COLLECTIVES = {"time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"}


def _calibration(verdict: Verdict) -> Iterator[str]:
    """Yield the section on the residuals of what calibrates: those of each case, the worst first."""
    found: list[tuple[float, list[str]]] = []
    for case in verdict.cases:
        for what, is_collective in (("one GPU", False), ("collectives", True)):
            points = [each for each in case.points if each.role == "calibration" and each.provenance == "read"]
            errors = [each.error for each in points if (each.metric in _OF_COLLECTIVES) is is_collective]
            if errors:
                summary = summarise([errors])
                cells = [f"[{case.name}](#{case.name})", what, *summary_cells(summary)[:-1]]
                found.append((summary.median_abs_error or 0.0, cells))
    yield _CALIBRATES
    yield ""
    found.sort(key=lambda each: (-each[0], each[1]))
    yield from table(["case", "what", "figures", "median", "90th", "bias"], [cells for _, cells in found])


_ANCHORED = """\
## With one measured run as an anchor

Forecasts of the cases with more than one point (`clustersim validate --anchored`), each anchored on the smallest
measured configuration with the same model, GPU, precision and program: fewest GPUs, then the smallest global batch. One
factor on kernels makes its forecast the measured figure, and all other figures are predicted with it. The anchor's own
point is not scored. Groups whose kernels follow from a measured rate of one GPU, or from measured times, are listed
apart: an anchor tells little more about them. Nothing else was changed for these forecasts."""


def _anchored(verdict: AnchoredVerdict) -> Iterator[str]:
    """Yield the section on anchored forecasts."""
    yield _ANCHORED
    yield ""
    for line in anchored_lines(verdict):
        yield f"- {line[0].upper()}{line[1:]}."
    for is_calibrated, title in ((False, "Nothing else calibrates"), (True, "Calibrated already")):
        groups = [group for group in verdict.groups if group.is_calibrated == is_calibrated]
        if groups:
            yield from ("", f"### {title}", "")
            yield from table(group_headings(), [_group(group) for group in groups])
    for each in verdict.skipped:
        yield f"\n**Without an anchor**: {each.case}: {each.reason}"


def _group(group: AnchoredGroup) -> list[str]:
    first, *cells = group_cells(group)
    return [f"[{first}](#{group.case})", *(cell.replace("|", "\\|") for cell in cells)]


def _case(case: CaseVerdict) -> Iterator[str]:
    yield f"## {case.name}"
    yield ""
    yield f"[{case.title}](../validate/{case.name}/source.md): {summary_text(case.summary())}."
    yield ""
    headings = ["GPUs", "what", "metric", "simulated", "measured", "unit", "error", ""]
    yield from table(headings, [_cells(point) for point in case.points])


def _cells(point: Compared) -> list[str]:
    remark = (
        "calibrates" if point.role == "calibration" else "" if point.is_scored else f"{point.provenance}, not scored"
    )
    numbers = [number_text(point.simulated), number_text(point.measured), point.unit, percent_text(point.error)]
    return [str(point.num_gpus), point.label.replace("|", "\\|"), point.metric, *numbers, remark]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{' --- |' * len(headings)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
