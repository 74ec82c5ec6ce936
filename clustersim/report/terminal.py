"""A sweep as text: the tables of a terminal and the lines below them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from clustersim.arguments import check_number, check_type
from clustersim.report.failures import failure_table
from clustersim.report.jobs import job_table
from clustersim.report.table import lines_below, tables
from clustersim.report.text_table import wrapped
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 140
"""Columns of text where there is no terminal."""


def printed(sweep: Sweep, columns: int) -> Iterator[Table | str]:
    """Yield the tables of a sweep that fit in so many columns of text, and the lines below them."""
    others = (found.parts(columns) for found in (job_table(sweep), failure_table(sweep)) if found is not None)
    yield from chain(tables(sweep, columns), *others)
    for line in lines_below(sweep):
        yield "\n".join(wrapped(line, columns))


def report_text(sweep: Sweep, columns: int = WIDTH) -> str:
    """Return what `clustersim run` prints of a sweep, in so many columns of plain text."""
    from rich.console import Console

    check_type("sweep", sweep, Sweep, "a Sweep, as clustersim.sweep gives it")
    check_number("columns", columns, least=1, is_whole=True)
    text = io.StringIO()
    console = Console(file=text, width=columns, color_system=None, force_terminal=False, force_jupyter=False)
    for part in printed(sweep, columns):
        if isinstance(part, str):
            text.write(f"{part}\n")
        else:
            console.print(part)
    return text.getvalue()
