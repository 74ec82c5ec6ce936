"""Forecasts of a point with changes: only what differences need, with everything shared that does not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.results import Run
from clustersim.scenario import Point
from clustersim.scenario.layout import share_layouts
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool

Progress = Callable[[float, str], None]
"""Takes the share of the work that is done, 0 to 1, and what is in progress."""


class ChangedPoint(NamedTuple):
    """A point to forecast, and its name for the progress."""

    point: Point
    name: str


def forecast_alone(point: Point, exact: bool, workloads: Workloads) -> Run:
    """Return the forecast of a point without tables and without a baseline."""
    return forecast(point, exact=exact, workloads=workloads, detail=False, compares=False).run


def forecast_all(
    tasks: Sequence[ChangedPoint], before: Point, exact: bool, workers: int, workloads: Workloads, progress: Progress
) -> list[Run | InputError]:
    """Return the forecast of each task, or why it is refused; `before` is the point without changes.

    In this process, points share workloads, layouts and routes with it where their change leaves these as they are. The
    results do not depend on `workers`.
    """

    def on_done(number: int, num_done: int) -> None:
        progress(num_done / len(tasks), tasks[number].name)

    if workers == 1 or len(tasks) == 1:
        found: dict[int, Run | InputError] = {}
        for number in sorted(range(len(tasks)), key=lambda number: not _shares(tasks[number].point)):
            point = tasks[number].point
            if _shares(point):
                share_layouts(point, before)
            found[number] = _forecast((point, exact), workloads)
            on_done(number, len(found))
        return [found[number] for number in range(len(tasks))]
    with ProcessPool(workers) as pool:
        return pool.map(_forecast_elsewhere, [(task.point, exact) for task in tasks], on_done)


def _shares(point: Point) -> bool:
    """Return whether a point differs from that without changes in nothing that its layouts depend on."""
    return bool(point.speeds.factors) and not point.speeds.of_compute.factors


def _forecast(task: tuple[Point, bool], workloads: Workloads) -> Run | InputError:
    try:
        return forecast_alone(*task, workloads)
    except InputError as error:
        return error


def _forecast_elsewhere(task: tuple[Point, bool]) -> Run | InputError:
    """Return the forecast of a point in a worker process, with the cache of the process."""
    return _forecast(task, _WORKLOADS)


_WORKLOADS = Workloads()
"""Cache of a worker process."""
