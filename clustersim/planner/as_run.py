"""The best layouts as `clustersim run` forecasts them: with all settings of the software, and all iterations."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.errors import ClustersimError
from clustersim.planner.journal import key_of
from clustersim.planner.request import PlanRequest
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool

AS_RUN = 3
"""Number of layouts that are simulated as `run` does, the best first."""


def run_times(choices: Sequence[Choice], request: PlanRequest, pool: ProcessPool) -> dict[str, float]:
    """Return the iteration time of each choice that can run with all settings of the software, by `key_of`."""
    points = {}
    for choice in choices:
        try:
            points[key_of(choice)] = request.as_run(choice)
        except ClustersimError:  # such as too little memory with a setting that a plan leaves out
            continue
    found = pool.map(_iteration_s, list(points.values())) if points else []
    return {key: time_s for key, time_s in zip(points, found, strict=True) if time_s is not None}


def _iteration_s(point: Point) -> float | None:
    try:
        return forecast(point, workloads=_WORKLOADS, detail=False, compares=False).run.iteration_s
    except ClustersimError:
        return None


_WORKLOADS = Workloads()
"""Cache of this process for data of the model's layers."""
