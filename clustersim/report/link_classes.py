"""Bottleneck by class of links: the busiest link of each class, and the unused classes."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, axis, layout
from clustersim.report.palette import load_colour
from clustersim.report.series import run_label
from clustersim.report.words import count, percent, plot_text
from clustersim.results import LinkClass, Run, Sweep
from clustersim.units import format_rate

_QUIET = 0.2
"""Utilisation of the busiest link below which links say nothing about a run."""


@dataclass(frozen=True)
class LinkClasses:
    """The figure in numbers: the used classes, the most loaded first, and the names of the unused ones.

    `quiet` says that no link is busy; empty where one is.
    """

    title: str
    run: str
    classes: tuple[LinkClass, ...]
    unused: tuple[str, ...]
    quiet: str


def link_classes_data(sweep: Sweep, run: Run) -> LinkClasses | None:
    """Return the classes of links by the utilisation of their busiest one; None where nothing was sent."""
    used = sorted((one for one in run.link_classes if one.num_used), key=lambda one: -one.max_utilisation)
    if not used:
        return None
    worst = used[0]
    of = f"one of {count(worst.num_links)}" if worst.num_links > 1 else "the only one"
    busy = f"{percent(worst.max_utilisation)} of the time"
    title = f"{worst.kind} links are the bottleneck: the busiest, {of}, is busy {busy}"
    if worst.max_utilisation < 0.5:
        title = f"No link is busy for more than {busy}; {worst.kind} links are the busiest"
    unused = tuple(one.kind for one in run.link_classes if not one.num_used)
    return LinkClasses(title, run_label(sweep, run), tuple(used), unused, quiet_links(worst.max_utilisation))


def quiet_links(utilisation: float) -> str:
    """Say that no link limits a run where the busiest one has this utilisation; empty where it may limit it."""
    return f"No link is busy for more than {percent(utilisation)} of the iteration." if utilisation < _QUIET else ""


def draw_link_classes(data: LinkClasses) -> Figure:
    """Draw one bar per class."""
    places = list(range(len(data.classes)))
    shares = [100.0 * one.max_utilisation for one in data.classes]
    small = "<br><span style='font-size:11px'>{} of {} used</span>"
    names = [plot_text(one.kind) + small.format(count(one.num_used), count(one.num_links)) for one in data.classes]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": shares,
        "y": places,
        "text": [percent(one.max_utilisation) for one in data.classes],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [_hover(one) for one in data.classes],
        "hoverinfo": "text",
        "marker": {"color": [load_colour(one.max_utilisation) for one in data.classes]},
    }
    unused = f"Unused: {', '.join(data.unused)}." if data.unused else ""
    height = 70 + 42 * len(places)
    return Figure(
        data.title,
        f"Utilisation of the busiest link of each class (% of the iteration at full rate): {data.run}.",
        [trace],
        layout(
            height,
            bargap=0.3,
            xaxis=axis("utilisation (%)", range=[0, max(104.0, 1.1 * max(shares))], tickvals=[0, 25, 50, 75, 100]),
            yaxis=axis(range=[len(places) - 0.4, -0.6], tickvals=places, ticktext=names, showgrid=False),
        ),
        {"xaxis": {"range": [0, max(108.0, 1.3 * max(shares))]}},
        label=data.run,
        note=unused,
        quiet=data.quiet,
    )  # fmt: skip


def _hover(one: LinkClass) -> str:
    used = f"{count(one.num_used)} of {count(one.num_links)} links used"
    rate = f"each {format_rate(one.bytes_per_s)}"
    return f"<b>{plot_text(one.kind)}</b><br>busiest {percent(one.max_utilisation)}<br>{used}<br>{rate}"
