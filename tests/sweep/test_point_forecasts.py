"""Points on workers: what a worker refuses is wrong here too; a point that ends its workers is a run with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from clustersim.errors import ExecutorError
from clustersim.results import PointError, Run
from clustersim.scenario import load_scenario
from clustersim.simulate import Forecast
from clustersim.sweep.executor import InProcess
from clustersim.sweep.point_forecasts import point_forecasts
from clustersim.sweep.task import PointTask
from tests.sweep.test_sweep import SCENARIO


class Failing(InProcess):
    """Workers that fail at every point."""

    def __init__(self, error: PointError | None):
        self._error = error

    def results(
        self, work: Callable[[Any], Any], items: Iterable[Any], on_lost: Callable[[Any, str], Any] | None = None
    ) -> Iterator[tuple[int, Any]]:
        for number, item in enumerate(items):
            if self._error is None:
                assert on_lost is not None
                yield number, on_lost(item, "its process was killed")
            else:
                yield number, Forecast(Run.failed(item.tree.axes, 1, self._error), (), (), ())


def tasks(**changes: Any) -> list[PointTask]:
    return [PointTask(tree) for tree in load_scenario({**SCENARIO, **changes}, strict=False).trees()]


def test_a_point_that_is_refused_by_a_worker_and_valid_here_is_an_error_of_the_worker() -> None:
    refused = Failing(PointError("refused", "no model is called 'mine'"))
    with pytest.raises(ExecutorError, match=r"a worker refuses a point that is valid here: no model is called 'mine'"):
        list(point_forecasts(refused, tasks()))


def test_a_point_that_is_refused_here_too_is_a_run_with_an_error() -> None:
    found = dict(point_forecasts(InProcess(), tasks(num_gpus=[1, 64])))
    assert [found[number].run.error is None for number in range(4)] == [True, True, False, False]


def test_a_point_that_ended_its_workers_is_stuck() -> None:
    found = dict(point_forecasts(Failing(None), tasks()))
    errors = [made.run.error for made in found.values()]
    assert {error.kind for error in errors if error} == {"stuck"}
    assert all(
        error and "three times: its process was killed; it may need more memory" in error.message for error in errors
    )
