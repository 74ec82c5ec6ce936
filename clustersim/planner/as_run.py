"""The best layouts as `clustersim run` forecasts them: with all settings of the software, and all iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clustersim.errors import ClustersimError
from clustersim.planner.journal import key_of
from clustersim.planner.request import PlanRequest
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool

AS_RUN = 3
"""Number of layouts that are simulated as `run` does, the best first."""


def run_times(
    choices: Sequence[Choice],
    request: PlanRequest,
    pool: ProcessPool,
    found: dict[str, float],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Add to `found` the iteration time of each choice that can run with all settings of the software, by `key_of`.

    `check` is called after each, and may raise an exception to stop.
    """
    points = {}
    for choice in choices:
        try:
            points[key_of(choice)] = request.as_run(choice)
        except ClustersimError:  # such as too little memory with a setting that a plan leaves out
            continue
    keys = list(points)

    def keep(number: int, time_s: float | None) -> None:
        if time_s is not None:
            found[keys[number]] = time_s
        check()

    pool.map(_iteration_s, list(points.values()), on_result=keep)


def _iteration_s(point: Point) -> float | None:
    try:
        return forecast(point, workloads=_WORKLOADS, detail=False, compares=False).run.iteration_s
    except ClustersimError:
        return None


_WORKLOADS = Workloads()
"""Cache of this process for data of the model's layers."""
