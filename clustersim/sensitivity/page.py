"""The page of sensitivities: the answer, the figure, both tables, and the command that makes it again."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from clustersim.report.page import bullets, card, grid, page, part
from clustersim.report.panel import Panel
from clustersim.report.words import percent
from clustersim.results import write_atomically
from clustersim.sensitivity.figure import draw_gains, gains_data
from clustersim.sensitivity.result import Why
from clustersim.sensitivity.table import GAIN_WORDS, UPGRADE_WORDS, gain_rows, title_of, upgrade_rows


def write_why(found: Why, path: str | Path) -> Path:
    """Write the page of sensitivities as one HTML file that loads nothing, and return its path."""
    return write_atomically(path, why_html(found))


def why_html(found: Why) -> str:
    """Return the page as HTML."""
    panel = Panel("gains", (draw_gains(gains_data(found)),), heading="Gains", rows="resource")
    body = [*_header(found), panel.html(), *_tables(found)]
    body.append(
        f"<footer>clustersim {found.version}. Figures need JavaScript; nothing is loaded from the network.</footer>"
    )
    return page(f"{found.name}: why not faster", found.version, body, [panel], name=found.name)


def _header(found: Why) -> Iterator[str]:
    first, *others = found.sentences
    yield (f'<header><p class="name">{escape(title_of(found))}</p><h1>{escape(first)}</h1>{bullets(others)}</header>')


def _tables(found: Why) -> Iterator[str]:
    yield part("Resources")
    under = (
        f"Each resource is {percent(found.by)} faster alone, its rates higher and its delays shorter, in a simulation "
        "of its own. The elasticity is 1 where the run is as much faster as the resource."
    )
    if found.dollars_per_hour is not None:
        under += " A gain is worth the price of the GPU times the gain."
    yield card("What each resource gives", under, grid(*gain_rows(found, has_bars=False), GAIN_WORDS), long=True)
    if found.upgrades:
        yield part("Upgrades")
        under = (
            "Hardware with a name. A price is that of the GPU's sheet, or the scenario's; links and cards have none. "
            "At the price under “pays up to”, an hour of a GPU with the upgrade trains at the cost of now."
        )
        yield card("What could be bought", under, grid(*upgrade_rows(found), UPGRADE_WORDS), long=True)
