"""The table of figures: in which part of the page each stands, and how it comes from a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from clustersim.registry import Registry
from clustersim.report.breakdown import breakdown_data, draw_breakdown, draw_shares
from clustersim.report.figure import Figure
from clustersim.report.lanes import MAX_MARKS
from clustersim.report.layers import draw_layers, layers_data
from clustersim.report.link_classes import draw_link_classes, link_classes_data
from clustersim.report.links import draw_links, links_data
from clustersim.report.published import draw_published, published_data
from clustersim.report.ranks import draw_ranks, ranks_data
from clustersim.report.rates import draw_rates
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.series import told_apart
from clustersim.report.staleness import draw_staleness, staleness_data
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.results import Run, Sweep

MAX_VARIANTS = 6
"""Runs that get a timeline, links and layers of their own: the headline run, its rivals, smaller sizes."""

Data = TypeVar("Data")


@dataclass(frozen=True)
class FigureKind:
    """Where a figure stands on the page (`answer`, `why` or `how sure`) and how it is made.

    `make` returns variants of which the reader chooses one by what `choose` names; none where a sweep has
    nothing to show.
    """

    part: str
    make: Callable[[Sweep], tuple[Figure, ...]]
    choose: str = "run"


def _per_run(
    data_of: Callable[[Sweep, Run], Data | None], draw: Callable[[Data], Figure]
) -> Callable[[Sweep], tuple[Figure, ...]]:
    def make(sweep: Sweep) -> tuple[Figure, ...]:
        found = (data_of(sweep, run) for run in told_apart(sweep, MAX_VARIANTS))
        return tuple(draw(data) for data in found if data is not None)

    return make


def _scaling(sweep: Sweep) -> tuple[Figure, ...]:
    data = scaling_data(sweep)
    return (draw_rates(data) if data.one_size else draw_scaling(data),)


def _timeline(sweep: Sweep) -> tuple[Figure, ...]:
    """Return the headline run in full detail, and the others in less, so that the page stays small."""
    drawn = []
    for number, run in enumerate(told_apart(sweep, MAX_VARIANTS)):
        data = timeline_data(sweep, run, MAX_MARKS if number == 0 else MAX_MARKS // 4)
        if data is not None:
            drawn.append(draw_timeline(data))
    return tuple(drawn)


def _breakdown(sweep: Sweep) -> tuple[Figure, ...]:
    data = breakdown_data(sweep)
    seconds, shares = draw_breakdown(data), draw_shares(data)
    return (shares, seconds) if data.uneven else (seconds, shares)


def _published(sweep: Sweep) -> tuple[Figure, ...]:
    rows = published_data(sweep)
    return (draw_published(rows),) if rows else ()


FIGURES = Registry(
    "figure",
    {
        "scaling": FigureKind("answer", _scaling),
        "published": FigureKind("answer", _published),
        "breakdown": FigureKind("why", _breakdown, choose="show"),
        "timeline": FigureKind("why", _timeline),
        "ranks": FigureKind("why", _per_run(ranks_data, draw_ranks)),
        "link-classes": FigureKind("why", _per_run(link_classes_data, draw_link_classes)),
        "links": FigureKind("why", _per_run(links_data, draw_links)),
        "layers": FigureKind("why", _per_run(layers_data, draw_layers)),
        "staleness": FigureKind("why", _per_run(staleness_data, draw_staleness)),
    },
)
"""Every figure, in the order of the page."""
