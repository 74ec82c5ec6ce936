"""The report of a sweep: the forecast, what limits it, its error, and how to reproduce it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from clustersim.arguments import check_type
from clustersim.errors import InputError
from clustersim.report.answer import rows
from clustersim.report.figures import FIGURES, SweepFigure
from clustersim.report.learning_cards import learning_cards
from clustersim.report.page import page, part
from clustersim.report.panel import Panel, RunPanel
from clustersim.report.run_details import RunDetails, run_details
from clustersim.report.sections import all_runs, failing, header, how_sure, reproduce
from clustersim.results import Sweep, write_atomically

PARTS = ("learning", "answer", "why", "how sure")
"""Parts of the page that have figures."""

_MOST_BESIDE = 65
"""Characters across of a table of all runs that fits beside a figure on a screen of 1,300 pixels."""


def write_report(sweep: Sweep, path: str | Path) -> Path:
    """Write the report of a sweep as one self-contained HTML file; nothing is simulated.

    Up to 100 runs give at most 1.5 MB; each further one adds a row of the table, of about 0.5 kB.
    """
    check_type("sweep", sweep, Sweep, "a Sweep, as clustersim.sweep gives it")
    check_type("path", path, (str, PurePath), "a file to write")
    return write_atomically(path, report_html(sweep))


def report_html(sweep: Sweep) -> str:
    """Return the report as HTML. The first screen has the forecast; everything below is optional reading."""
    if not sweep.runs:
        raise InputError("there is nothing to report: the sweep has no runs", got="no runs", allowed="at least one run")
    if not sweep.ran:
        return page(_title(sweep), sweep.version, [header(sweep), failing(sweep), *_end(sweep)], [], None, sweep.name)
    details = run_details(sweep)
    panels = {where: list(_panels(sweep, details, where)) for where in PARTS}
    html = {where: [panel.html() for panel in found] for where, found in panels.items()}
    body = [
        header(sweep),
        *_learning(sweep, html["learning"]),
        *_answer(sweep, html["answer"]),
        part("What limits the speed"),
        *html["why"],
        part("Error and assumptions"),
        *html["how sure"],
        f'<div class="cards">{"".join(how_sure(sweep))}</div>',
        *_end(sweep),
    ]
    drawn = [panel for found in panels.values() for panel in found]
    return page(_title(sweep), sweep.version, body, drawn, details, sweep.name)


def _title(sweep: Sweep) -> str:
    return f"{sweep.name}: clustersim forecast"


def _end(sweep: Sweep) -> Iterator[str]:
    """Yield the end of the page: how to reproduce it."""
    yield part("Reproduce")
    yield from reproduce(sweep)
    yield f"<footer>clustersim {sweep.version}. Figures need JavaScript; nothing is loaded from the network.</footer>"


def _learning(sweep: Sweep, panels: Sequence[str]) -> list[str]:
    """Return the part on what was trained, and the heading of the part that follows; nothing without a training."""
    if not panels:
        return []
    return [part("Learning"), *panels, *learning_cards(sweep), part("Samples per second")]


def _answer(sweep: Sweep, panels: Sequence[str]) -> list[str]:
    """Return the table of all runs beside the first figure, or above it where its columns need the whole width.

    Points without a forecast are below the table.
    """
    table, others = all_runs(sweep), failing(sweep)
    if _characters_across(*rows(sweep)) > _MOST_BESIDE:
        return [table, others, f'<div class="pair">{"".join(panels)}</div>' if len(panels) == 2 else "".join(panels)]
    return [f'<div class="two">{panels[0]}<div>{table}{"".join(panels[1:])}</div></div>', others]


def _characters_across(headings: Sequence[str], body: Sequence[Sequence[str]]) -> int:
    """Return the characters across of a table whose texts break at spaces and hyphens.

    >>> _characters_across(["GPUs", "strategy"], [["8", "a ring of hosts"], ["16", "hierarchical"]])
    16
    """
    columns = zip(headings, *body, strict=True)
    return sum(max(len(word) for text in column for word in re.split("[ -]", text)) for column in columns)


def _panels(sweep: Sweep, details: RunDetails, where: str) -> Iterator[Panel | RunPanel]:
    """Yield the panels of a part of the page: figures of the sweep, and those that any run has."""
    for name, kind in FIGURES.items():
        if kind.part != where:
            continue
        if not isinstance(kind, SweepFigure):
            if name in details.panels:
                yield RunPanel(name, kind.heading, details.figures.get(name), kind.rows)
        elif figures := kind.make(sweep):
            yield Panel(name, figures, kind.choose, kind.heading, kind.rows)
