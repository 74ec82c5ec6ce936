"""The comparison as tables of text: of all points, of the parts with their causes, of links, and of what differs."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.difference.decompose import CauseChange, PartChange
from clustersim.difference.difference import Difference, PointDifference
from clustersim.difference.sentences import point_label
from clustersim.difference.settings import SettingChange
from clustersim.report.palette import LABELS
from clustersim.report.text_table import Row, TextTable
from clustersim.report.words import count, duration, percent, plural, shortened, size
from clustersim.units import format_rate

_SHOWN = 3
"""Causes of a part in a table."""

_VISIBLE = 0.01
"""Share of the largest change from which on a cause has a row."""

_ROUNDING = 1e-9
"""Share of the whole up to which a change is rounding."""

_LONGEST = 44

PART_HEADINGS = ("", "A", "B", "change", "of A")
LINK_HEADINGS = ("links", "bytes in A", "in B", "rate in A", "in B", "busiest in A", "in B", "change")
POINT_HEADINGS = ("point", "A", "B", "change", "of A", "changes most")
SETTING_HEADINGS = ("what", "A", "B")


def change_text(change_s: float, whole_s: float) -> str:
    """Return a change of time as text, with its sign; what is rounding beside the whole is 0.

    >>> change_text(0.0123, 1.0), change_text(-0.0123, 1.0), change_text(1e-15, 1.0)
    ('+12.3\u202fms', '-12.3\u202fms', '0')
    """
    if abs(change_s) <= _ROUNDING * whole_s:
        return "0"
    return f"{'-' if change_s < 0 else '+'}{duration(abs(change_s))}"


def visible_causes(part: PartChange, largest_s: float, most: int) -> tuple[list[CauseChange], list[CauseChange]]:
    """Return the causes of a part that are shown, and the others."""
    ordered = sorted(part.causes, key=lambda cause: -abs(cause.change_s))
    shown = [cause for cause in ordered if abs(cause.change_s) > _VISIBLE * largest_s][:most]
    return shown, [cause for cause in ordered if cause not in shown]


def part_rows(point: PointDifference, most: int = _SHOWN) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the parts that take time, each with its main causes below it, and the sum."""
    largest_s = max(abs(part.change_s) for part in point.parts)
    whole_s = point.seconds[0]
    for part in point.parts:
        if part.a_s <= 0 and part.b_s <= 0:
            continue
        yield _cells(LABELS[part.part], part.a_s, part.b_s, whole_s)
        for cause in visible_causes(part, largest_s, most)[0]:
            name = f"{shortened(cause.name, _LONGEST)}{f' ({count(cause.number)}×)' if cause.number > 1 else ''}"
            yield _cells(f"  {name}", cause.a_s, cause.b_s, whole_s)
    yield _cells(f"in all, {point.basis.noun.rstrip(',')}", *point.seconds, whole_s)


def _cells(name: str, a_s: float, b_s: float, whole_s: float) -> tuple[str, ...]:
    change_s = b_s - a_s
    times = (change_text(seconds, whole_s).removeprefix("+") for seconds in (a_s, b_s))
    share = percent(change_s / whole_s, signed=True) if abs(change_s) > _ROUNDING * whole_s else "0"
    return name, *times, change_text(change_s, whole_s), share


def link_rows(point: PointDifference) -> Iterator[tuple[str, ...]]:
    """Yield a row for each class of links that carries anything."""
    for links in point.links:
        sizes = (size(each) if each else "–" for each in links.num_bytes)
        rates = (format_rate(each) if each else "–" for each in links.bytes_per_s)
        busy = (f"{percent(each)}" for each in links.max_utilisation)
        yield links.kind, *sizes, *rates, *busy, change_text(links.change_s, point.seconds[0])


def point_rows(found: Difference) -> Iterator[tuple[str, ...]]:
    """Yield a row for each point: both times, and the part that changes most."""
    for point in found.differences:
        part = max(point.parts, key=lambda each: abs(each.change_s))
        most = (
            f"{LABELS[part.part]} {change_text(part.change_s, point.seconds[0])}" if not point.is_equal else "nothing"
        )
        yield *_cells(point_label(point), *point.seconds, point.seconds[0]), most


def setting_rows(changes: tuple[SettingChange, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each key or fact that differs."""
    yield from ((change.key, *change.words) for change in changes)


def sides_line(found: Difference, number: int) -> str:
    """Return what one of the two is, in one line."""
    sweep, run = found.main.sweeps[number], found.main.runs[number]
    points = "" if len(found.differences) == 1 else f"{plural(len(found.differences), 'point')}; "
    gpus = f"{count(run.num_gpus)} GPUs" if run.num_gpus > 1 else "1 GPU"
    batch = f"batch {count(run.batch_per_gpu)} on each, " if run.num_gpus > 1 else f"batch {count(run.batch_per_gpu)}, "
    return f"{'AB'[number]}: {found.names[number]} ({points}{gpus}, {batch}clustersim {sweep.version})"


def text_tables(found: Difference) -> list[TextTable]:
    """Return the tables for a terminal."""
    main, tables = found.main, []
    if len(found.differences) > 1:
        rows = tuple(Row(cells) for cells in point_rows(found))
        tables.append(TextTable("all points", POINT_HEADINGS, rows, left=frozenset(["point", "changes most"])))
    rows = tuple(Row(cells) for cells in part_rows(main))
    title = "where the time goes" if len(found.differences) == 1 else f"where the time goes: {point_label(main)}"
    tables.append(TextTable(title, PART_HEADINGS, rows, left=frozenset([""])))
    if any(links.change_s for links in main.links):
        rows = tuple(Row(cells) for cells in link_rows(main))
        caption = "busiest: share of the time in which the busiest link is in use; change: of the seconds of that"
        tables.append(TextTable("links", LINK_HEADINGS, rows, caption=caption, left=frozenset(["links"])))
    differs = (*main.settings, *main.facts)
    if len(differs) > 1:
        rows = tuple(Row(cells) for cells in setting_rows(differs))
        tables.append(TextTable("what differs", SETTING_HEADINGS, rows, left=frozenset(SETTING_HEADINGS)))
    return tables
