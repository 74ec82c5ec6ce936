"""Forecasts of points from an executor's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from clustersim.errors import ClustersimError, ExecutorError
from clustersim.results import PointError, Run
from clustersim.simulate import Forecast
from clustersim.sweep.executor import Executor
from clustersim.sweep.task import PointTask, forecast_point

Result = TypeVar("Result")


def point_forecasts(executor: Executor, tasks: Iterable[PointTask]) -> Iterator[tuple[int, Forecast]]:
    """Yield the index of each point with its forecast, as they are done; see `point_results`."""
    return point_results(executor, forecast_point, tasks, lost_point, lambda made: made.run.error)


def point_results(
    executor: Executor,
    work: Callable[[PointTask], Result],
    tasks: Iterable[PointTask],
    on_lost: Callable[[PointTask, str], Result],
    error_of: Callable[[Result], PointError | None],
) -> Iterator[tuple[int, Result]]:
    """Yield the index of each point with what the work made of it, as they are done.

    `on_lost` gives the result of a point whose worker ended three times. A point that a worker refuses, as `error_of`
    its result says, is checked here; if it is valid here, the worker lacks what this process has, and ExecutorError is
    raised.
    """
    in_work: dict[int, PointTask] = {}
    confirmed: set[str] = set()

    def taken() -> Iterator[PointTask]:
        for number, task in enumerate(tasks):
            in_work[number] = task
            yield task

    for number, made in executor.results(work, taken(), on_lost):
        task, error = in_work.pop(number), error_of(made)
        if error is not None and error.kind == "refused" and error.message not in confirmed:
            _confirm(task, error)
            confirmed.add(error.message)
        yield number, made


def lost_point(task: PointTask, message: str) -> Forecast:
    """Return the run of a point whose workers ended."""
    error = PointError("stuck", f"the point could not be simulated, three times: {message}; it may need more memory")
    return Forecast(Run.failed(dict(task.tree.axes), task.tree.num_gpus, error), (), (), ())


def _confirm(task: PointTask, error: PointError) -> None:
    """Raise ExecutorError if a point that a worker refuses is valid in this process, and if it trains, trains here."""
    try:
        point = task.tree.point()
    except ClustersimError:
        return
    if task.learns and point.learning is not None and forecast_point(task).run.error is not None:
        return
    message = (
        f"a worker refuses a point that is valid here: {error.message}\n"
        "Workers need the scenario's files at the same paths, and members that you added as an installed package"
    )
    raise ExecutorError(message)
