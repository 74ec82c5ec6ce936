"""Table of all figures: the part of the page of each, and how it is made from a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from clustersim.registry import Registry
from clustersim.report.backups import backups_data, draw_backups
from clustersim.report.breakdown import breakdown_data, draw_breakdown, draw_shares
from clustersim.report.checkpoints import checkpoint_interval_data, draw_checkpoint_interval
from clustersim.report.choosing import choosing_data, draw_choosing
from clustersim.report.clocks import clocks_data, draw_clocks
from clustersim.report.failure_time import draw_failure_time, failure_time_data
from clustersim.report.figure import Figure
from clustersim.report.jobs import draw_jobs, jobs_data
from clustersim.report.lanes import MAX_MARKS
from clustersim.report.layers import draw_layers, layers_data
from clustersim.report.link_classes import draw_link_classes, link_classes_data
from clustersim.report.links import draw_links, links_data
from clustersim.report.memory_time import draw_memory_time, memory_time_data
from clustersim.report.published import draw_published, published_data
from clustersim.report.ranks import draw_ranks, ranks_data
from clustersim.report.rates import draw_rates
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.series import runs_with_figures
from clustersim.report.staleness import draw_staleness, staleness_data
from clustersim.report.staleness_time import draw_staleness_time, staleness_time_data
from clustersim.report.straggler_causes import draw_straggler_causes, straggler_causes_data
from clustersim.report.stragglers import draw_stragglers, stragglers_data
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.report.versions import draw_versions, versions_data
from clustersim.results import Run, Sweep

MAX_VARIANTS = 6
"""Runs with their own timeline, links and layers: the headline run, others of its size, then smaller sizes."""

Data = TypeVar("Data")


@dataclass(frozen=True)
class FigureKind:
    """Part of the page of a figure (`answer`, `why` or `how sure`), and how it is made.

    `make` returns its variants, none where a sweep has no data for it. The reader selects one; `choose` labels the
    selection.
    """

    part: str
    make: Callable[[Sweep], tuple[Figure, ...]]
    choose: str = "run"


def _per_run(
    data_of: Callable[[Sweep, Run], Data | None], draw: Callable[[Data], Figure]
) -> Callable[[Sweep], tuple[Figure, ...]]:
    def make(sweep: Sweep) -> tuple[Figure, ...]:
        found = (data_of(sweep, run) for run in runs_with_figures(sweep, MAX_VARIANTS))
        return tuple(draw(data) for data in found if data is not None)

    return make


def _per_sweep(
    data_of: Callable[[Sweep], Data | None], draw: Callable[[Data], Figure]
) -> Callable[[Sweep], tuple[Figure, ...]]:
    def make(sweep: Sweep) -> tuple[Figure, ...]:
        data = data_of(sweep)
        return () if data is None else (draw(data),)

    return make


def _scaling(sweep: Sweep) -> tuple[Figure, ...]:
    data = scaling_data(sweep)
    return (draw_rates(data) if data.one_size else draw_scaling(data),)


def _timeline(sweep: Sweep) -> tuple[Figure, ...]:
    """Return the headline run in full detail and the others in less, so that the page stays small."""
    drawn = []
    for number, run in enumerate(runs_with_figures(sweep, MAX_VARIANTS)):
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
        "choosing": FigureKind("why", _per_sweep(choosing_data, draw_choosing)),
        "backups": FigureKind("why", _per_sweep(backups_data, draw_backups)),
        "jobs": FigureKind("why", _per_sweep(jobs_data, draw_jobs)),
        "breakdown": FigureKind("why", _breakdown, choose="show"),
        "timeline": FigureKind("why", _timeline),
        "stragglers": FigureKind("why", _per_run(stragglers_data, draw_stragglers)),
        "who-was-last": FigureKind("why", _per_run(straggler_causes_data, draw_straggler_causes)),
        "ranks": FigureKind("why", _per_run(ranks_data, draw_ranks)),
        "link-classes": FigureKind("why", _per_run(link_classes_data, draw_link_classes)),
        "links": FigureKind("why", _per_run(links_data, draw_links)),
        "memory-over-time": FigureKind("why", _per_run(memory_time_data, draw_memory_time)),
        "layers": FigureKind("why", _per_run(layers_data, draw_layers)),
        "clocks": FigureKind("why", _per_run(clocks_data, draw_clocks)),
        "staleness": FigureKind("why", _per_run(staleness_data, draw_staleness)),
        "staleness-over-time": FigureKind("why", _per_run(staleness_time_data, draw_staleness_time)),
        "versions": FigureKind("why", _per_run(versions_data, draw_versions)),
        "failures": FigureKind("why", _per_run(failure_time_data, draw_failure_time)),
        "checkpoints": FigureKind("why", _per_run(checkpoint_interval_data, draw_checkpoint_interval)),
    },
)
"""Every figure, in the order of the page."""
