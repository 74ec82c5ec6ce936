"""Table of all figures: the part of the page of each, and how it is made from a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from clustersim.registry import Registry
from clustersim.report.backups import backups_data, draw_backups
from clustersim.report.breakdown import breakdown_data, draw_breakdown, draw_shares
from clustersim.report.checkpoints import checkpoint_interval_data, draw_checkpoint_interval
from clustersim.report.choosing import choosing_data, draw_choosing
from clustersim.report.clocks import clocks_data, draw_clocks
from clustersim.report.consensus import consensus_data, draw_consensus
from clustersim.report.failure_time import draw_failure_time, failure_time_data
from clustersim.report.figure import Figure, FigureTable
from clustersim.report.figure_tables import checkpoint_table, link_table, scaling_table, staleness_time_table
from clustersim.report.jobs import draw_jobs, jobs_data
from clustersim.report.lanes import MAX_MARKS
from clustersim.report.layers import draw_layers, layers_data
from clustersim.report.learning_curves import learning_curves_figures
from clustersim.report.learning_scale import draw_learning_scale, learning_scale_data
from clustersim.report.link_classes import draw_link_classes, link_classes_data
from clustersim.report.links import draw_links, links_data
from clustersim.report.memory_time import draw_memory_time, memory_time_data
from clustersim.report.pollux import draw_pollux, pollux_data
from clustersim.report.published import draw_published, published_data
from clustersim.report.ranks import draw_ranks, ranks_data
from clustersim.report.rates import draw_rates
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.series import headline, runs_with_figures
from clustersim.report.staleness import draw_staleness, staleness_data
from clustersim.report.staleness_time import draw_staleness_time, staleness_time_data
from clustersim.report.straggler_causes import draw_straggler_causes, straggler_causes_data
from clustersim.report.stragglers import draw_stragglers, stragglers_data
from clustersim.report.time_to_target import draw_time_to_target, time_to_target_data
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.report.versions import draw_versions, versions_data
from clustersim.results import Run, Sweep

Data = TypeVar("Data")

MIN_MARKS = 400
"""Marks that the timeline of any run may have, however many runs a page has."""


@dataclass(frozen=True)
class SweepFigure:
    """A figure of the whole sweep: the part of the page, of `report.PARTS`, and its name in the contents.

    `make` returns its variants, none where a sweep has no data for it. The reader selects one; `choose` labels the
    selection. `rows` is what the named rows of an axis are, for the table of its numbers.
    """

    part: str
    heading: str
    make: Callable[[Sweep], tuple[Figure, ...]]
    rows: str = ""
    choose: str = "show"


@dataclass(frozen=True)
class RunFigure:
    """A figure of one run, which the reader chooses for the whole page; `draw` returns None where it has no data."""

    part: str
    heading: str
    draw: Callable[[Sweep, Run], Figure | None]
    rows: str = ""

    def make(self, sweep: Sweep) -> tuple[Figure, ...]:
        """Return the figures of all runs that have data, the most informative run first."""
        drawn = (self.draw(sweep, run) for run in runs_with_figures(sweep))
        return tuple(figure for figure in drawn if figure is not None)


def _of_run(
    part: str,
    heading: str,
    data_of: Callable[[Sweep, Run], Data | None],
    draw: Callable[[Data], Figure],
    rows: str = "",
    table: Callable[[Data], FigureTable] | None = None,
) -> RunFigure:
    def drawn(sweep: Sweep, run: Run) -> Figure | None:
        data = data_of(sweep, run)
        if data is None:
            return None
        return draw(data) if table is None else replace(draw(data), table=table(data))

    return RunFigure(part, heading, drawn, rows)


def _of_sweep(
    part: str, heading: str, data_of: Callable[[Sweep], Data | None], draw: Callable[[Data], Figure], rows: str = ""
) -> SweepFigure:
    def make(sweep: Sweep) -> tuple[Figure, ...]:
        data = data_of(sweep)
        return () if data is None else (draw(data),)

    return SweepFigure(part, heading, make, rows)


def _scaling(sweep: Sweep) -> tuple[Figure, ...]:
    data = scaling_data(sweep)
    figure = draw_rates(data) if data.one_size else draw_scaling(data)
    return (replace(figure, table=scaling_table(data)),)


def _timeline(sweep: Sweep, run: Run) -> Figure | None:
    data = timeline_data(sweep, run, most_marks(len(sweep.ran), run is headline(sweep)))
    return None if data is None else draw_timeline(data)


def most_marks(num_runs: int, is_first: bool) -> int:
    """Return how many marks a timeline has: the first run of a page most, the others fewer the more they are.

    >>> most_marks(3, True), most_marks(3, False), most_marks(200, False)
    (5000, 1250, 400)
    """
    return MAX_MARKS if is_first else max(MIN_MARKS, min(MAX_MARKS // 4, 4 * MAX_MARKS // num_runs))


def _breakdown(sweep: Sweep) -> tuple[Figure, ...]:
    data = breakdown_data(sweep)
    seconds, shares = draw_breakdown(data), draw_shares(data)
    return (shares, seconds) if data.uneven else (seconds, shares)


def _published(sweep: Sweep) -> tuple[Figure, ...]:
    rows = published_data(sweep)
    return (draw_published(rows),) if rows else ()


FIGURES: Registry[SweepFigure | RunFigure] = Registry(
    "figure",
    {
        "scaling": SweepFigure("answer", "Scaling", _scaling),
        "learning-curves": SweepFigure("learning", "Loss and accuracy", learning_curves_figures),
        "time-to-target": _of_sweep("learning", "Time to target", time_to_target_data, draw_time_to_target),
        "consensus": _of_sweep("learning", "Consensus distance", consensus_data, draw_consensus),
        "pollux": _of_sweep("learning", "Pollux's formula", pollux_data, draw_pollux),
        "learning-scale": _of_sweep("learning", "Another batch", learning_scale_data, draw_learning_scale),
        "published": SweepFigure("answer", "Published figures", _published, "published figure"),
        "choosing": _of_sweep("why", "Choosing a strategy", choosing_data, draw_choosing, "setting"),
        "backups": _of_sweep("why", "Backup workers", backups_data, draw_backups),
        "jobs": _of_sweep("why", "Jobs", jobs_data, draw_jobs, "job"),
        "breakdown": SweepFigure("why", "Where the time goes", _breakdown, "run"),
        "timeline": RunFigure("why", "One iteration", _timeline, "rank"),
        "stragglers": _of_run("why", "Stragglers", stragglers_data, draw_stragglers, "rank"),
        "who-was-last": _of_run("why", "Who was last", straggler_causes_data, draw_straggler_causes, "rank"),
        "ranks": _of_run("why", "Ranks", ranks_data, draw_ranks),
        "link-classes": _of_run("why", "Kinds of links", link_classes_data, draw_link_classes, "kind of link"),
        "links": _of_run("why", "Links", links_data, draw_links, table=link_table),
        "memory-over-time": _of_run("why", "Memory over time", memory_time_data, draw_memory_time),
        "layers": _of_run("why", "Layers", layers_data, draw_layers, "layer"),
        "clocks": _of_run("why", "Lead of workers", clocks_data, draw_clocks),
        "staleness": _of_run("why", "Staleness", staleness_data, draw_staleness),
        "staleness-over-time": _of_run(
            "why", "Staleness over time", staleness_time_data, draw_staleness_time, table=staleness_time_table
        ),
        "versions": _of_run("why", "Versions of the weights", versions_data, draw_versions, "worker"),
        "failures": _of_run("why", "Failures", failure_time_data, draw_failure_time),
        "checkpoints": _of_run(
            "why", "Checkpoint interval", checkpoint_interval_data, draw_checkpoint_interval, table=checkpoint_table
        ),
    },
)
"""Every figure, in the order of the page."""
