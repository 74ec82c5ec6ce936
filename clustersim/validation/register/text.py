"""The score of a register as text for a terminal, and as a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.validation.markdown import table
from clustersim.validation.register.entry import RegisterEntry
from clustersim.validation.register.first import FirstForecasts
from clustersim.validation.register.score import REGISTER_SCHEMA, EntryScore, RegisterScore
from clustersim.validation.score import Summary
from clustersim.validation.text import aligned, number_text, percent_text, point_remarks, summary_text
from clustersim.validation.verdict import Compared

_WORDS = ("entry", "source", "metric", "unit", "what", "first forecast", "figures", "")

_PAGE = """\
# Forecasts made before their figures were known

This page is written by `clustersim register score --markdown docs/register.md`. Each forecast was written to
`validate/register/<entry>/forecast.json`, with its date, the version and the hashes of its files, before the measured
figure was read; it is never rewritten. [The rule](../validate/register/README.md) by which sources are chosen was
written before the sources were. The error is that of the speed, forecast / measured - 1.
Above 0 the forecast is too quick, also where a time was measured. Every source has equal weight.

*First* is the forecast as it was first made; it is the error to expect of a new forecast. *Present* is the same
scenario simulated by the present version, which was developed while the figures were known.
"""


def score_text(scored: RegisterScore) -> str:
    """Return the whole score as text, entries with the largest median error first."""
    parts = ["\n".join(_entry_lines(score)) for score in scored.entries]
    return "\n\n".join([*parts, "\n".join(_summary_lines(scored))])


def score_page(scored: RegisterScore) -> str:
    """Return the score as a page in Markdown."""
    lines = [_PAGE, *(f"{line[0].upper()}{line[1:]}." for line in summary_sentences(scored)), ""]
    lines += table(summary_headings(scored), summary_rows(scored))
    for score in scored.entries:
        entry = score.entry
        lines += ["", f"## {entry.name}", ""]
        lines += [
            f"[{entry.title}](../validate/register/{entry.name}/source.md), first forecast {entry.first.date[:10]} "
            f"(version {entry.first.code.version}): {summary_text(score.first.summary())}.",
            "",
            *table(entry_headings(score), entry_rows(score)),
        ]
    return "\n".join(lines) + "\n"


def entries_text(entries: Sequence[RegisterEntry]) -> str:
    """Return a line for each entry: its source, when it was forecast, and whether its figures are known."""
    headings = ("entry", "source", "first forecast", "version", "points", "figures", "")
    rows = [
        (
            entry.name,
            entry.source,
            entry.first.date[:10],
            entry.first.code.version,
            str(len(entry.points)),
            str(len(entry.rows) or "none yet"),
            entry.title,
        )
        for entry in entries
    ]
    return "\n".join(aligned([headings, *rows], _WORDS)) if rows else "the register has no entries yet"


def entries_document(entries: Sequence[RegisterEntry]) -> dict[str, Any]:
    """Return the entries as JSON values."""
    rows = [
        {
            "name": entry.name,
            "title": entry.title,
            "source": entry.source,
            "published": entry.published or None,
            "date": entry.first.date,
            "version": entry.first.code.version,
            "num_points": len(entry.points),
            "num_figures": len(entry.rows),
        }
        for entry in entries
    ]
    return {"schema": REGISTER_SCHEMA, "entries": rows}


def first_text(first: FirstForecasts) -> str:
    """Return the first forecasts of an entry as a table."""
    headings = ("GPUs", "metric", "forecast", "unit", "what")
    rows = [
        (
            str(forecast.num_gpus),
            forecast.metric,
            number_text(forecast.value),
            forecast.unit,
            forecast.label or ", ".join(f"{key}={value}" for key, value in forecast.settings.items()),
        )
        for forecast in first.forecasts
    ]
    return "\n".join(aligned([headings, *rows], _WORDS))


def summary_sentences(scored: RegisterScore) -> Iterator[str]:
    """Yield the errors over all entries, of first and of present forecasts, and the entries without figures."""
    num_sources = len(scored.errors_by_source())
    of = f"{num_sources} source{'' if num_sources == 1 else 's'}"
    yield f"first forecasts, {of}: {summary_text(scored.summary())}"
    if scored.has_present:
        yield f"present version, same scenarios: {summary_text(scored.summary(present=True))}"
    if scored.waiting:
        yield f"without figures yet: {', '.join(scored.waiting)}"


def summary_headings(scored: RegisterScore) -> list[str]:
    """Return the columns of the table of entries."""
    present = ["present median", "90th", "bias"] if scored.has_present else []
    return ["entry", "source", "points", "first median", "90th", "bias", *present]


def summary_rows(scored: RegisterScore) -> list[list[str]]:
    """Return the cells of every entry, and of all sources together."""
    rows = []
    for score in scored.entries:
        again = None if score.present is None else score.present.summary()
        rows.append([score.entry.name, score.entry.source, *_cells(scored, score.first.summary(), again)])
    overall = scored.summary(present=True) if scored.has_present else None
    return [*rows, ["all sources", "", *_cells(scored, scored.summary(), overall)]]


def entry_headings(score: EntryScore) -> list[str]:
    """Return the columns of the table of an entry's figures."""
    present = ["present", "error"] if score.present is not None else []
    return ["GPUs", "metric", "measured", "unit", "first", "error", *present, "what"]


def entry_rows(score: EntryScore) -> list[list[str]]:
    """Return the cells of every figure of an entry."""
    return [_point_cells(score, *pair) for pair in score.pairs()]


def _entry_lines(score: EntryScore) -> Iterator[str]:
    yield f"{score.entry.name}: {score.entry.title} (first forecast {score.entry.first.date[:10]})"
    yield from aligned([entry_headings(score), *entry_rows(score)], _WORDS, indent="  ")


def _point_cells(score: EntryScore, first: Compared, present: Compared | None) -> list[str]:
    again = ["-", "-"] if present is None else [number_text(present.simulated), percent_text(present.error)]
    return [
        str(first.num_gpus),
        first.metric,
        number_text(first.measured),
        first.unit,
        number_text(first.simulated),
        percent_text(first.error),
        *(again if score.present is not None else []),
        point_remarks(first),
    ]


def _summary_lines(scored: RegisterScore) -> Iterator[str]:
    if scored.entries:
        yield from aligned([summary_headings(scored), *summary_rows(scored)], _WORDS)
        yield ""
    yield from summary_sentences(scored)
    for each in scored.skipped:
        yield f"skipped: {each.case}: {each.reason}"


def _cells(scored: RegisterScore, first: Summary, present: Summary | None) -> list[str]:
    again = _three(present) if present is not None else ["-"] * 3 if scored.has_present else []
    return [str(first.num_points), *_three(first), *again]


def _three(summary: Summary) -> list[str]:
    sizes = [percent_text(size, signed=False) for size in (summary.median_abs_error, summary.p90_abs_error)]
    return [*sizes, percent_text(summary.bias)]
