"""The HTML page of a validation: the accuracy by case, then every figure with its source; one self-contained file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from clustersim.report.page import bullets, card, grid, page, part
from clustersim.report.panel import Panel
from clustersim.report.words import percent, plural
from clustersim.results import write_atomically
from clustersim.validation.figures import (
    by_case_data,
    by_size_data,
    curves_data,
    draw_by_case,
    draw_by_size,
    draw_curves,
    draw_scatter,
    scatter_data,
)
from clustersim.validation.text import chosen_lines, number_text, percent_text, summary_cells, summary_text
from clustersim.validation.verdict import CaseVerdict, Verdict


def write_validation(verdict: Verdict, path: str | Path) -> Path:
    """Write the page of a validation as one self-contained HTML file."""
    return write_atomically(path, validation_html(verdict))


def validation_html(verdict: Verdict) -> str:
    """Return the page: the headline, plots, the table of cases, and every point with its source."""
    panels = _panels(verdict)
    first, *others = (panel.html() for panel in panels)
    body = [
        f'<header><p class="name">clustersim validate</p><h1>{escape(headline(verdict))}</h1></header>',
        _cases(verdict),
        first,
        *others,
        *_skipped(verdict),
        part("Every figure"),
        *(_case(case) for case in verdict.cases),
        f"<footer>clustersim {verdict.version}. Figures need JavaScript; nothing is loaded from anywhere.</footer>",
    ]
    return page("clustersim: forecasts against measurements", verdict.version, body, panels)


def headline(verdict: Verdict) -> str:
    """Return the accuracy of the forecasts in one sentence."""
    found = verdict.summary()
    if found.median_abs_error is None:
        return "No figure is scored."
    cases = sum(bool(case.errors()) for case in verdict.cases)
    scored = f"{plural(found.num_points, 'predicted figure')} of {plural(cases, 'case')}"
    return f"{scored}: the median error is {percent(found.median_abs_error)}."


def _panels(verdict: Verdict) -> list[Panel]:
    panels = [Panel("by-case", (draw_by_case(by_case_data(verdict)),), heading="Errors of cases", rows="case")]
    scatters = tuple(draw_scatter(data) for data in scatter_data(verdict))
    panels.append(Panel("scatter", scatters, "metric", "Forecast and measurement"))
    sizes = by_size_data(verdict)
    if sizes is not None:
        panels.append(Panel("by-size", (draw_by_size(sizes),), heading="Errors by size"))
    curves = tuple(draw_curves(data) for data in curves_data(verdict))
    return [*panels, Panel("curves", curves, "case", "Curves")] if curves else panels


def _cases(verdict: Verdict) -> str:
    headings = ["case", "what", "points", "median", "90th", "bias", "orderings"]
    rows = [[case.marked_name, case.title, *summary_cells(case.summary())] for case in verdict.cases]
    rows.append(["all cases", "equal weight for every case", *summary_cells(verdict.summary())])
    chosen = "".join(f" {line[0].upper()}{line[1:]}." for line in chosen_lines(verdict))
    about = f"Predicted: {summary_text(verdict.summary())}.{chosen} Calibration: {summary_text(verdict.calibration())}."
    return card("Error by case", about, grid(headings, rows, ("case", "what")))


def _skipped(verdict: Verdict) -> Iterator[str]:
    if verdict.skipped:
        reasons = [f"{each.case}: {each.reason}" for each in verdict.skipped]
        yield card(f"{len(reasons)} could not be compared", "Their simulation failed.", bullets(reasons))


def _case(case: CaseVerdict) -> str:
    headings = ["GPUs", "what", "metric", "simulated", "measured", "unit", "error", "role", "provenance", "source"]
    rows = [
        [str(point.num_gpus), point.label, point.metric, number_text(point.simulated), number_text(point.measured),
         point.unit, percent_text(point.error), point.role, point.provenance,
         "; ".join(filter(None, (point.where, point.note)))]
        for point in case.points
    ]  # fmt: skip
    words = ("what", "metric", "unit", "role", "provenance", "source")
    return card(f"{case.name}: {case.title}", summary_text(case.summary()), grid(headings, rows, words), long=True)
