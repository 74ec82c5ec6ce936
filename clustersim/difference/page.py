"""The page of a comparison: the answer, the waterfall, then layers, links and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePath

from clustersim.arguments import check_type
from clustersim.difference.difference import Difference, KeyEffect, PointDifference
from clustersim.difference.sentences import point_label
from clustersim.difference.tables import (
    PART_HEADINGS,
    POINT_HEADINGS,
    SETTING_HEADINGS,
    change_text,
    link_rows,
    part_rows,
    point_rows,
    setting_rows,
    sides_line,
)
from clustersim.difference.waterfall import draw_waterfall, waterfall_data
from clustersim.report.figure import Figure
from clustersim.report.page import bullets, card, grid, page, part
from clustersim.report.panel import Panel
from clustersim.report.words import count, duration, percent, times
from clustersim.results import write_atomically

MOST_POINTS = 40
"""Points that have a waterfall on the page: those whose times differ by the largest factors."""

_CAUSES = 12
"""Causes of a part in the table of the page."""


def write_diff_report(found: Difference, path: str | Path) -> Path:
    """Write a comparison as one self-contained HTML file."""
    check_type("found", found, Difference, "a Difference, as clustersim.diff gives it")
    check_type("path", path, (str, PurePath), "a file to write")
    return write_atomically(path, diff_html(found))


def diff_html(found: Difference) -> str:
    """Return the page of a comparison as HTML."""
    main = found.main
    panel = Panel("waterfall", tuple(_figures(found)), "show", "Waterfall", "step")
    body = [
        _header(found),
        *([_all_points(found)] if len(found.differences) > 1 else []),
        panel.html(),
        *_tables(found, main),
        part("What differs"),
        *_differs(found, main),
        f"<footer>clustersim {escape(max(found.versions))}. "
        "Figures need JavaScript; nothing is loaded from the network.</footer>",
    ]
    name = f"{found.names[0]} and {found.names[1]}"
    return page(f"{name}: clustersim diff", max(found.versions), body, [panel], None, "comparison")


def _figures(found: Difference) -> Iterator[Figure]:
    """Yield the waterfalls: that of the main point first, each by part and in detail."""
    ordered = sorted(found.differences, key=lambda each: (each is not found.main, -each.factor))
    for point in ordered[:MOST_POINTS]:
        for in_detail in (False, True):
            yield draw_waterfall(waterfall_data(found, point, in_detail))


def _header(found: Difference) -> str:
    first, *others = found.answer
    sides = "<br>".join(escape(sides_line(found, number)) for number in (0, 1))
    tiles = "".join(
        f'<div class="tile"><dt>{escape(label)}</dt><dd>{escape(value)}</dd><dd class="note">{escape(note)}</dd></div>'
        for label, value, note in _tiles(found.main)
    )
    more = "".join(f'<p class="more">{escape(text)}</p>' for text in others)
    return f'<header><p class="name">{sides}</p><h1>{escape(first)}</h1>{more}</header><dl class="tiles">{tiles}</dl>'


def _tiles(point: PointDifference) -> Iterator[tuple[str, str, str]]:
    """Yield label, value and note of the numbers at the top."""
    a_s, b_s = point.seconds
    a, b = point.runs
    noun = point.basis.noun.rstrip(",")
    yield f"time of {noun}, A", duration(a_s), ""
    yield f"time of {noun}, B", duration(b_s), f"{change_text(b_s - a_s, a_s)}, {percent(b_s / a_s - 1, signed=True)}"
    yield (
        "samples per second",
        count(b.samples_per_s),
        f"A {count(a.samples_per_s)}, {times(b.samples_per_s / a.samples_per_s)}",
    )
    per_gpu = [run.samples_per_s_per_gpu for run in (a, b)]
    yield "of each GPU", count(per_gpu[1]), f"A {count(per_gpu[0])}, {times(per_gpu[1] / per_gpu[0])}"
    yield "GPUs", count(b.num_gpus), f"A {count(a.num_gpus)}"
    if a.mfu is not None and b.mfu is not None:
        yield "MFU", percent(b.mfu), f"A {percent(a.mfu)}"


def _all_points(found: Difference) -> str:
    table = grid(POINT_HEADINGS, point_rows(found), ["point", "changes most"])
    return card("All points", "Points with equal values on all axes are compared.", table, name="Points")


def _tables(found: Difference, point: PointDifference) -> Iterator[str]:
    where = f": {point_label(point)}" if len(found.differences) > 1 else ""
    headings = ["part and cause", *PART_HEADINGS[1:]]
    under = f"Time of {point.basis.noun.rstrip(',')}; the causes of a part that change most stand below it{where}."
    rows = [
        [f"\u2003{row[0].strip()}" if row[0].startswith(" ") else row[0], *row[1:]] for row in part_rows(point, _CAUSES)
    ]
    yield card("Where the time goes", under, grid(headings, rows, headings[:1]), name="Parts and causes")
    links = list(link_rows(point))
    if links:
        headings = ["links", "bytes, A", "bytes, B", "rate, A", "rate, B", "busiest, A", "busiest, B", "busy, change"]
        under = (
            "Bytes of all links of a class; share of the time in which the busiest is in use, and how its time changes."
        )
        yield card("Links by class", under, grid(headings, links, headings[:1]), name="Links")


def _differs(found: Difference, point: PointDifference) -> Iterator[str]:
    """Yield the cards of keys and facts that differ, and of the versions."""
    keys, facts = list(setting_rows(point.settings)), list(setting_rows(point.facts))
    if keys:
        headings, under = list(SETTING_HEADINGS), "Keys that have other values."
        if found.effects:
            alone = {effect.key: effect for effect in found.effects}
            keys = [(*row, _alone(alone[row[0]], point)) for row in keys]
            headings, under = [*headings, "alone"], f"{under} Alone: what A takes more with this one value of B."
        yield card("The scenarios", under, grid(headings, keys, SETTING_HEADINGS), name="Keys")
    else:
        yield card("The scenarios have the same keys", "", "", name="Keys")
    if facts:
        under = "What the runs took, from data sheets and defaults too."
        yield card("Hardware and software", under, grid(SETTING_HEADINGS, facts, SETTING_HEADINGS), name="Facts")
    if len(set(found.versions)) > 1:
        notes = [f"A: {found.versions[0]}, B: {found.versions[1]}"]
        yield card("Versions of clustersim", "", bullets(notes), name="Versions")


def _alone(effect: KeyEffect, point: PointDifference) -> str:
    return "not valid alone" if effect.change_s is None else change_text(effect.change_s, point.seconds[0])
