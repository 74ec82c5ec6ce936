"""The runs of a sweep as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clustersim.report.answer import rows
from clustersim.report.words import THIN
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table

_WORDS = {"where the time goes", "published (error of the forecast)"}


def table(sweep: Sweep) -> Table:
    """Return a rich table with a row for each run: `rich.print(table(sweep))`."""
    from rich.table import Table
    from rich.text import Text

    headings, body = rows(sweep)
    result = Table(title=Text(sweep.name), title_justify="left", title_style="bold")
    for heading in headings:
        result.add_column(heading, justify="left" if heading in _WORDS else "right", overflow="fold")
    for cells in body:
        result.add_row(*(Text(cell.replace(THIN, " ")) for cell in cells))
    return result
