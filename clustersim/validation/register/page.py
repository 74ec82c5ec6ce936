"""The HTML page of a register: the errors of first forecasts, then every figure; one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from clustersim.report.page import bullets, card, grid, page
from clustersim.report.panel import Panel
from clustersim.report.words import percent, plural
from clustersim.results import write_atomically
from clustersim.results.checked import shipped_forecasts
from clustersim.validation.figures.register import draw_register, register_curves
from clustersim.validation.register.score import RegisterScore
from clustersim.validation.register.text import (
    entry_headings,
    entry_rows,
    summary_headings,
    summary_rows,
    summary_sentences,
)
from clustersim.validation.text import summary_text

_WORDS = ("entry", "source", "metric", "unit", "what")


def write_register(scored: RegisterScore, tuned: Sequence[Sequence[float]], path: str | Path) -> Path:
    """Write the page of a register; `tuned` are the errors of each case that was seen during development."""
    return write_atomically(path, register_html(scored, tuned))


def headline(scored: RegisterScore) -> str:
    """Return the error of first forecasts in one sentence."""
    found = scored.summary()
    if found.median_abs_error is None:
        return "No figure of the register is scored yet."
    figures = plural(found.num_points, "figure")
    sources = plural(len(scored.errors_by_source()), "source")
    error = percent(found.median_abs_error)
    return f"{figures} of {sources}, forecast before they were known: the median error is {error}."


def seen_errors() -> list[list[float]]:
    """Return the errors of each shipped case, which were seen during development."""
    return [list(errors) for errors in shipped_forecasts().seen_errors.values()]


def register_html(scored: RegisterScore, tuned: Sequence[Sequence[float]]) -> str:
    """Return the page: the curves of errors, the table of entries, and every figure."""
    figure = draw_register(register_curves(scored, tuned))
    panel = Panel("register", (figure,), heading="Errors")
    sentences = ". ".join(f"{line[0].upper()}{line[1:]}" for line in summary_sentences(scored))
    body = [
        f'<header><p class="name">clustersim register</p><h1>{escape(headline(scored))}</h1></header>',
        panel.html(),
        card("Error by entry", f"{sentences}.", grid(summary_headings(scored), summary_rows(scored), _WORDS)),
    ]
    if scored.skipped:
        reasons = [f"{each.case}: {each.reason}" for each in scored.skipped]
        body.append(card("Not simulated by the present version", "Their simulation failed.", bullets(reasons)))
    for score in scored.entries:
        under = f"First forecast {score.entry.first.date[:10]}: {summary_text(score.first.summary())}."
        table = grid(entry_headings(score), entry_rows(score), _WORDS)
        body.append(card(f"{score.entry.name}: {score.entry.title}", under, table, long=True))
    body.append(
        f"<footer>clustersim {scored.version}. Figures need JavaScript; nothing is loaded from anywhere.</footer>"
    )
    return page("clustersim: forecasts made before their figures were known", scored.version, body, [panel])
