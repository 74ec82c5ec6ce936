"""The forecast of one point, in any process: what an executor sends to its workers."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.errors import ClustersimError, InputError, SimulationError
from clustersim.execution.job import OnProgress
from clustersim.results import PointError, Run
from clustersim.scenario import PointTree
from clustersim.simulate import AnchorFit, Forecast, Workloads, forecast_anchored


@dataclass(frozen=True)
class PointTask:
    """A point to forecast; plain data that can be pickled.

    `found` is what measured runs say. Without `detail` a run has no rows per span, layer, link and rank. `timeout_s` is
    the time that the point may take.
    """

    tree: PointTree
    exact: bool = False
    found: AnchorFit | None = None
    detail: bool = True
    timeout_s: float | None = None


def forecast_point(
    task: PointTask, workloads: Workloads | None = None, on_progress: OnProgress = lambda share: None
) -> Forecast:
    """Return the forecast of a point; of one that fails, a run without figures and with its error.

    `workloads` is the cache of the points of a process, by default that of this process.
    """
    try:
        return forecast_anchored(
            task.tree.point(),
            task.tree.axes,
            task.found,
            exact=task.exact,
            on_progress=on_progress,
            workloads=_WORKLOADS if workloads is None else workloads,
            detail=task.detail,
        )
    except ClustersimError as error:
        return Forecast(Run.failed(dict(task.tree.axes), task.tree.num_gpus, point_error(error)), (), (), ())


def point_error(error: ClustersimError) -> PointError:
    """Return why a point has no forecast."""
    if isinstance(error, SimulationError):
        return PointError("stuck", str(error))
    lacks = [each for each in error.mistakes if each.needed_bytes is not None] if isinstance(error, InputError) else []
    if lacks:
        return PointError("does-not-fit", str(error), lacks[0].needed_bytes, lacks[0].available_bytes, lacks[0].remedy)
    return PointError("refused", str(error))


_WORKLOADS = Workloads()
"""Cache of a worker process."""
