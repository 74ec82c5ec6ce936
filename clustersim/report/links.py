"""The busiest links, drawn on the topology with hosts as boxes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.report.figure import Figure
from clustersim.report.link_classes import quiet_links
from clustersim.report.link_picture import Picture, draw_picture, make_picture
from clustersim.report.series import run_label
from clustersim.report.words import count, percent, plural
from clustersim.results import LinkLoad, Run, Sweep

MAX_LINKS = 28
"""Links drawn at most; fewer where their names would overlap."""


@dataclass(frozen=True)
class BusyLinks:
    """The figure in numbers: the busiest links with their positions, for a desktop and for a phone."""

    title: str
    run: str
    wide: Picture
    narrow: Picture
    note: str
    quiet: str


def links_data(sweep: Sweep, run: Run, max_links: int = MAX_LINKS) -> BusyLinks | None:
    """Return the busiest links and the position of each of their nodes; None where nothing was sent."""
    busy = sorted((link for link in run.links if link.num_bytes > 0), key=_order)
    if not busy:
        return None
    most = tuple(busy[:max_links])
    wide = make_picture(most, width_px=1080.0, stretch=1.7)
    narrow = make_picture(most, width_px=340.0, stretch=0.7)
    num_used = max(len(busy), sum(one.num_used for one in run.link_classes))
    shown = len(wide.links)
    note = f"The {shown} busiest of {count(num_used)} used links are drawn ({len(narrow.links)} on a narrow screen)."
    return BusyLinks(
        title=_title(busy),
        run=run_label(sweep, run),
        wide=wide,
        narrow=narrow,
        note=note if num_used > shown else "",
        quiet=quiet_links(most[0].utilisation),
    )


def _order(link: LinkLoad) -> tuple[float, list[tuple[str, int]]]:
    """Return what links are sorted by: the busiest first, then by their names with numbers as numbers."""
    parts = re.findall(r"(\D*)(\d*)", link.name)
    return -float(f"{link.utilisation:.9g}"), [(text, int(number or -1)) for text, number in parts]


def _title(links: Sequence[LinkLoad]) -> str:
    worst = links[0]
    equal = sum(link.utilisation > 0.995 * worst.utilisation for link in links)
    what = f"{worst.src} → {worst.dst}" if worst.src != worst.dst else f"{worst.kind} in {worst.dst}"
    also = f" (and {plural(equal - 1, 'other')})" if equal > 1 else ""
    return f"The busiest link is {what}{also}: at full rate for {percent(worst.utilisation)} of the iteration"


def draw_links(data: BusyLinks) -> Figure:
    """Draw every link as a line whose width and colour show its utilisation, and label the bottleneck."""
    traces, drawn = draw_picture(data.wide)
    narrow_traces, narrow = draw_picture(data.narrow)
    under = f"Busiest links: {data.run}. Width and colour: utilisation (% of the iteration at full rate); boxes: hosts."
    return Figure(
        data.title,
        under,
        traces,
        drawn,
        narrow,
        label=data.run,
        note=data.note,
        narrow_traces=narrow_traces,
        quiet=data.quiet,
    )
