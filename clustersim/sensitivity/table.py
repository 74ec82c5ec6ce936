"""Sensitivities as tables, for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clustersim.report.palette import LABELS
from clustersim.report.text_table import Row, TextTable, wrapped
from clustersim.report.words import count, duration, percent
from clustersim.sensitivity.result import Gain, Upgrade, Why
from clustersim.sensitivity.sentences import HELPS, money

if TYPE_CHECKING:
    from rich.table import Table

_NOTHING = 0.005
"""Elasticity that is shown as 0.00."""

_BAR = 10
"""Characters of a bar as long as the change itself."""

GAIN_WORDS = ("resource", "shorter", "")
UPGRADE_WORDS = ("what", "now", "instead", "remark")


def gain_rows(found: Why, has_bars: bool) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each resource, and one for all together."""
    has_price = found.dollars_per_hour is not None
    headings = ["resource", f"{percent(found.by, signed=True)} gives", *([""] if has_bars else []), "elasticity"]
    headings += [*(["worth $/GPU h"] if has_price else []), "shorter"]
    rows = [_gain_cells(each, has_bars, has_price) for each in (*found.gains, found.together)]
    return headings, rows


def _gain_cells(each: Gain, has_bars: bool, has_price: bool) -> list[str]:
    bar = "█" * max(0, min(2 * _BAR, round(_BAR * each.elasticity)))
    worth = [_told(each.worth_dollars, money) if abs(each.elasticity) >= _NOTHING else ""] * has_price
    cells = [each.title, percent(each.gain, signed=True), *([bar] if has_bars else []), f"{each.elasticity:.2f}"]
    return [*cells, *worth, each.idle or _shorter(each)]


def _shorter(each: Gain) -> str:
    """Return the part of an iteration that becomes shorter most."""
    part = max(each.saved_s, key=lambda name: each.saved_s[name], default=None)
    if part is None or each.elasticity < HELPS or each.saved_s[part] <= 0:
        return ""
    return f"{LABELS[part]} {duration(each.saved_s[part])}"


def upgrade_rows(found: Why) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each upgrade; columns that no row fills are left out."""
    headings = ["what", "now", "instead", "gives", "samples/s", "$/GPU h", "pays up to", f"$/M {found.unit}", "cost"]
    rows = [_upgrade_cells(each) for each in found.upgrades]
    kept = [place for place in range(len(headings) + 1) if place < 3 or any(row[place] for row in rows)]
    return [[*headings, "remark"][place] for place in kept], [[row[place] for place in kept] for row in rows]


def _upgrade_cells(each: Upgrade) -> list[str]:
    first = each.refused.partition(";")[0].partition(": ")[0]
    return [
        each.title,
        each.now.partition(", ")[0],
        each.then.partition(", ")[0],
        _told(each.gain, lambda gain: percent(gain, signed=True)),
        _told(each.samples_per_s, count),
        _told(each.dollars_per_hour if each.is_priced else None, money),
        _told(each.pays_up_to, money),
        _told(each.dollars_per_million, money),
        _told(each.cost_change, lambda change: percent(change, signed=True)),
        f"refused: {first}" if each.refused else "",
    ]


def _told(value: float | None, words: Callable[[float], str]) -> str:
    return "" if value is None else words(value)


def printed(found: Why, width: int) -> list[Table | str]:
    """Return the answer for a terminal of so many columns: both tables, and the sentences."""
    headings, rows = gain_rows(found, has_bars=True)
    gains = TextTable(title_of(found), tuple(headings), tuple(Row(tuple(cells)) for cells in rows), 1, left=_LEFT)
    parts = gains.parts(width)
    if found.upgrades:
        headings, rows = upgrade_rows(found)
        table = TextTable("Upgrades", tuple(headings), tuple(Row(tuple(cells)) for cells in rows), 3, left=_LEFT)
        parts += ["", *table.parts(width)]
    parts.append("")
    parts += [line for sentence in found.sentences for line in wrapped(sentence, width)]
    return parts


_LEFT = frozenset((*GAIN_WORDS, *UPGRADE_WORDS))


def title_of(found: Why) -> str:
    """Return the name of the scenario, and which of its points is explained."""
    point = ", ".join(f"{key} {value}" for key, value in found.axes.items())
    of = f": {point} (one of {found.num_points} points; --set chooses another)" if point else ""
    return f"{found.name}{of}"
