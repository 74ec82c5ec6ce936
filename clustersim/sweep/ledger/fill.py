"""Simulates the points of a sweep that a ledger lacks, and keeps each as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from clustersim.errors import InputError, SimulationError
from clustersim.results import PointError
from clustersim.results.point_error import RETRIED_KINDS
from clustersim.scenario import Scenario
from clustersim.simulate import Workloads, check_can_learn, fit_scenario
from clustersim.sweep.executor import Executor
from clustersim.sweep.ledger.entry import lost_entry, make_entry
from clustersim.sweep.ledger.ledger import SweepLedger
from clustersim.sweep.ledger.shard import SweepShard
from clustersim.sweep.ledger.sweep_in_ledger import SweepInLedger
from clustersim.sweep.point_forecasts import point_results
from clustersim.sweep.task import PointTask
from clustersim.units import format_duration

Progress = Callable[[float, str], None]


def fill(
    ledger: SweepLedger,
    loaded: Scenario,
    executor: Executor,
    *,
    exact: bool = False,
    shard: SweepShard | None = None,
    retry: bool = False,
    strict: bool = False,
    point_timeout_s: float | None = None,
    progress: Progress = lambda share, what: None,
    learns: bool = True,
) -> SweepInLedger:
    """Simulate the points of a scenario, or of a shard, that a ledger lacks; return the sweep in the ledger.

    Points are made, simulated and kept one after the other, so that memory does not grow with their number. With
    `retry` points that were stuck or took too long are simulated again. If `strict`, a point without a forecast raises
    InputError or SimulationError. Unless it `learns`, the task of `learning` is not trained, and each point is kept as
    that of a scenario without the task.
    """
    if learns:
        check_can_learn(loaded)
    sweep, part = ledger.begin(loaded, exact, shard, learns), shard or SweepShard()
    if strict:
        _check_kept(sweep, part, retry)
    numbers = ledger.left(sweep, part, retry)
    if not numbers:
        return sweep
    found = fit_scenario(loaded, exact, Workloads(), lambda what: progress(0.0, what))
    trees, taken = loaded.trees(), list[int]()

    def tasks() -> Iterator[PointTask]:
        for number in numbers:
            if not ledger.has_forecast(sweep, number):
                taken.append(number)
                yield PointTask(trees[number], exact, found, detail=False, timeout_s=point_timeout_s, learns=learns)

    total = part.count(len(trees))
    told = _Told(progress, total - len(numbers), total)
    with executor:
        for place, entry in point_results(executor, make_entry, tasks(), lost_entry, lambda entry: entry.error):
            ledger.record(sweep, taken[place], entry)
            if strict and entry.error is not None:
                raise _raised(entry.error)
            told.one()
    return sweep


def _check_kept(sweep: SweepInLedger, shard: SweepShard, retry: bool) -> None:
    """Raise the error of the first point that failed before and is not simulated again."""
    for _, run in sweep.failures(shard):
        if run.error is not None and not (retry and run.error.kind in RETRIED_KINDS):
            raise _raised(run.error)


def _raised(error: PointError) -> InputError | SimulationError:
    return SimulationError(error.message) if error.kind in RETRIED_KINDS else InputError(error.message)


class _Told:
    """Tells how many points are done and how long the others will take."""

    def __init__(self, progress: Progress, num_before: int, num_points: int):
        self._progress, self._before, self._all = progress, num_before, num_points
        self._here, self._start_s = 0, time.monotonic()

    def one(self) -> None:
        """Tell that one more point is done."""
        self._here += 1
        done = self._before + self._here
        left_s = (time.monotonic() - self._start_s) / self._here * (self._all - done)
        self._progress(done / self._all, f"{done:,} of {self._all:,} points, about {format_duration(left_s)} left")
