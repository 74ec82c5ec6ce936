"""The forecast of one point, in any process: what an executor sends to its workers."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.errors import ClustersimError, InputError, Mistake, NotInstalledError, TooLongError
from clustersim.execution.job import OnProgress
from clustersim.results import ErrorKind, PointError, Run
from clustersim.scenario import PointTree
from clustersim.simulate import AnchorFit, Forecast, Workloads, forecast_anchored
from clustersim.sweep.time_limit import within


@dataclass(frozen=True)
class PointTask:
    """A point to forecast; plain data that can be pickled.

    `found` is what measured runs say. Without `detail` a run has no rows per span, layer, link and rank. `timeout_s` is
    the time that the point may take. A `strict` task raises the error of a point that fails. Unless it `learns`, the
    task of `learning` is not trained.
    """

    tree: PointTree
    exact: bool = False
    found: AnchorFit | None = None
    detail: bool = True
    timeout_s: float | None = None
    strict: bool = False
    learns: bool = True


def forecast_point(
    task: PointTask, workloads: Workloads | None = None, on_progress: OnProgress = lambda share: None
) -> Forecast:
    """Return the forecast of a point; of one that fails, a run without figures and with its error.

    Packages that training needs and this process lacks are an error of no point: NotInstalledError is raised.
    `workloads` is the cache of the points of a process, by default that of this process.
    """
    cache = _WORKLOADS if workloads is None else workloads

    def work() -> Forecast:
        point = task.tree.point()
        try:
            return forecast_anchored(
                point,
                task.tree.axes,
                task.found,
                exact=task.exact,
                on_progress=on_progress,
                workloads=cache,
                detail=task.detail,
                learns=task.learns,
            )
        except NotInstalledError:
            raise
        except InputError as error:
            raise task.tree.located(error) from None

    try:
        return within(task.timeout_s, work)
    except NotInstalledError:
        raise
    except ClustersimError as error:
        if isinstance(error, TooLongError):
            cache.clear()
        if task.strict:
            raise
        return Forecast(Run.failed(dict(task.tree.axes), task.tree.num_gpus, point_error(error)), (), (), ())


def point_error(error: ClustersimError) -> PointError:
    """Return why a point has no forecast; the message is one line, without the place in the scenario's file."""
    mistakes = error.mistakes if isinstance(error, InputError) else ()
    if not mistakes:
        kind: ErrorKind = "too-long" if isinstance(error, TooLongError) else "stuck"
        return PointError(kind, _one_line(str(error)))
    message = _one_line("; ".join(map(_without_place, mistakes)))
    first = mistakes[0]
    if all(each.needed_bytes is not None for each in mistakes):
        return PointError("does-not-fit", message, first.needed_bytes, first.available_bytes, first.remedy)
    return PointError("refused", message)


def _without_place(mistake: Mistake) -> str:
    """Return a mistake without the text of its file, and without its place unless that is in another file."""
    file = f"{mistake.file}:{mistake.line}" if mistake.named_by and mistake.line else None
    return ": ".join(part for part in (mistake.named_by, file, mistake.key, mistake.message) if part)


def _one_line(text: str) -> str:
    return " ".join(text.split())


_WORKLOADS = Workloads()
"""Cache of a worker process."""
