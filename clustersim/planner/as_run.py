"""The best layouts as `clustersim run` forecasts them: with all settings of the software, and all iterations."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.errors import ClustersimError
from clustersim.planner.journal import key_of
from clustersim.planner.request import PlanRequest
from clustersim.planner.search import Deadline, left_s
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool
from clustersim.sweep.time_limit import within

AS_RUN = 3
"""Number of layouts that are simulated as `run` does, the best first."""


def run_times(
    choices: Sequence[Choice],
    request: PlanRequest,
    pool: ProcessPool,
    found: dict[str, float],
    deadline: Deadline,
) -> None:
    """Add to `found` the iteration time of each choice that can run with all settings of the software, by `key_of`.

    At the end of the time those that are not simulated are left out.
    """
    points = {}
    for choice in choices:
        try:
            points[key_of(choice)] = request.as_run(choice)
        except ClustersimError:  # such as too little memory with a setting that a plan leaves out
            continue
    deadline.check()
    keys = list(points)

    def keep(number: int, time_s: float | None) -> None:
        if time_s is not None:
            found[keys[number]] = time_s

    pool.map(_iteration_s, [(point, deadline.end_s) for point in points.values()], on_result=keep)


def _iteration_s(task: tuple[Point, float | None]) -> float | None:
    """Return the iteration time of a point; None if it cannot be simulated until the end of the time."""
    point, end_s = task
    try:
        found = within(left_s(end_s), lambda: forecast(point, workloads=_WORKLOADS, detail=False, compares=False))
        return found.run.iteration_s
    except ClustersimError:
        return None


_WORKLOADS = Workloads()
"""Cache of this process for data of the model's layers."""
