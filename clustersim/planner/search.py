"""Best-first search: layouts are simulated, the best expected times first, until no other can be among the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from clustersim.errors import ClustersimError
from clustersim.planner.journal import Journal, note
from clustersim.planner.layout_costs import point_of
from clustersim.planner.objective import Objective
from clustersim.planner.queue import Candidate, LayoutQueue
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool
from clustersim.units import format_duration

_ROUND = 4
"""Layouts simulated between two checks of the stop criterion; fixed, so that the result does not depend on the number
of processes."""

_ITERATIONS = 2
"""Measured iterations of each layout: enough to see whether iterations repeat."""


@dataclass(frozen=True)
class SimulatedLayout:
    """Results of simulating a choice."""

    ranked: Candidate
    iteration_s: float
    samples_per_s: float
    breakdown_s: dict[str, float]

    @property
    def choice(self) -> Choice:
        return self.ranked.choice

    def figures(self) -> dict[str, Any]:
        """Return the simulated figures, without the bound and the memory."""
        return {
            "iteration_s": self.iteration_s,
            "samples_per_s": self.samples_per_s,
            "breakdown_s": self.breakdown_s,
        }

    @property
    def communication_s(self) -> float:
        """Cost of communication: its exposed time, and the slowdown of overlapping compute."""
        return self.breakdown_s["communication_exposed"] + self.breakdown_s["slowed"]


OnProgress = Callable[[float, str], None]


@dataclass
class Search:
    """Layouts simulated so far, the best first, and those that failed with the reason.

    `unfinished` are the simulated layouts of a round that has not ended.
    """

    simulated: list[SimulatedLayout] = field(default_factory=list)
    failed: list[tuple[Choice, str]] = field(default_factory=list)
    unfinished: list[SimulatedLayout] = field(default_factory=list)


class TimeIsUp(BaseException):
    """The time limit of a search is over. Like an interruption, it ends the worker processes at once."""


class Deadline:
    """The end of a search's time, at `end_s` of `clock`; None is no limit."""

    def __init__(self, end_s: float | None = None, clock: Callable[[], float] = time.monotonic):
        self._end_s, self._clock = end_s, clock

    def check(self) -> None:
        """Raise TimeIsUp if the time is over."""
        if self.left_s() <= 0:
            raise TimeIsUp

    def left_s(self) -> float:
        """Return the seconds that are left, infinite without a limit."""
        return inf if self._end_s is None else self._end_s - self._clock()


@dataclass
class Simulator:
    """What simulations of one search have in common: the training, processes, earlier results, and the time limit."""

    point: Point
    pool: ProcessPool
    journal: Journal | None = None
    deadline: Deadline = field(default_factory=Deadline)

    def simulate_all(
        self,
        ranked: Sequence[Candidate],
        on_result: Callable[[SimulatedLayout | str], None] = lambda answer: None,
    ) -> tuple[list[SimulatedLayout], list[tuple[Choice, str]]]:
        """Return the results of choices in their order, and those that failed with the reason.

        Results in the journal are not simulated again; new ones are added to it. `on_result` takes each result, or why
        it failed, as soon as it is there. Then TimeIsUp is raised if the time is over, also before the last result.
        """

        def take(answer: SimulatedLayout | str) -> None:
            on_result(answer)
            self.deadline.check()

        known = [None if self.journal is None else _from_journal(each, self.journal) for each in ranked]
        path = None if self.journal is None else self.journal.path
        to_simulate = [(self.point, each, path) for each, answer in zip(ranked, known, strict=True) if answer is None]
        for answer in known:
            if answer is not None:
                on_result(answer)
        made = self.pool.map(_simulate_one, to_simulate, on_result=lambda _, answer: take(answer))
        new = iter(made)
        answers = [next(new) if answer is None else answer for answer in known]
        simulated = [answer for answer in answers if isinstance(answer, SimulatedLayout)]
        failed = [
            (each.choice, answer) for each, answer in zip(ranked, answers, strict=True) if isinstance(answer, str)
        ]
        return simulated, failed


def simulate_best_first(
    simulator: Simulator, queue: LayoutQueue, objective: Objective, top: int, on_progress: OnProgress, search: Search
) -> None:
    """Simulate layouts in rounds and store the results in `search` after each, so that they survive an interruption.

    The search goes on while a layout of the queue has a bound better than the worst of the best `top`.
    """
    simulated, pace = search.simulated, _Pace(on_progress, simulator.deadline)
    while True:
        simulated.sort(key=lambda each: objective.of(each.choice, each.iteration_s))
        choices = {*(each.choice for each in simulated), *(choice for choice, _ in search.failed)}
        worst = None
        if len(simulated) >= top:
            worst = objective.of(simulated[top - 1].choice, simulated[top - 1].iteration_s)
        following = (each for each in iter(partial(queue.take, worst), None) if each.choice not in choices)
        batch = list(islice(following, _ROUND))
        if not batch:
            return
        left = None if worst is None else queue.num_better_than(worst)

        def keep(answer: SimulatedLayout | str, left: int | None = left) -> None:
            pace.tell(left)
            if isinstance(answer, SimulatedLayout):
                search.unfinished.append(answer)

        pace.begin(len(batch), left)
        made, errors = simulator.simulate_all(batch, keep)
        search.unfinished.clear()
        search.failed += errors
        simulated += made


class _Pace:
    """Number of simulated layouts and those to come, and the time that they take at most."""

    def __init__(
        self, on_progress: OnProgress, deadline: Deadline | None = None, clock: Callable[[], float] = time.monotonic
    ):
        self._on_progress, self._clock, self._begin_s = on_progress, clock, clock()
        self._deadline = deadline or Deadline()
        self._num_done = self._num_begun = 0

    def begin(self, num: int, left: int | None) -> None:
        """Begin a round of `num` layouts; `left` may follow at most, None if that is not known yet."""
        self._num_begun += num
        self._show(left)

    def tell(self, left: int | None) -> None:
        """Count a finished layout."""
        self._num_done += 1
        self._show(left)

    def _show(self, left: int | None) -> None:
        done, most = self._num_done, self._num_begun + (left or 0)
        text = f"{done} layouts, {most} at least" if left is None else f"{done} layouts of at most {most}"
        if done and left is not None:
            left_s = min((self._clock() - self._begin_s) / done * (most - done), max(0.0, self._deadline.left_s()))
            text += f", at most {format_duration(left_s)} left"
        self._on_progress(0.5 + 0.4 * done / (most + (_ROUND if left is None else 0)), text)


def _from_journal(ranked: Candidate, journal: Journal) -> SimulatedLayout | str | None:
    """Return the earlier results of a choice; None if it was not simulated."""
    answer = journal.known(ranked.choice)
    if answer is None or "failed" in answer:
        return None if answer is None else str(answer["failed"])
    return SimulatedLayout(ranked, answer["iteration_s"], answer["samples_per_s"], dict(answer["breakdown_s"]))


def _simulate_one(to_simulate: tuple[Point, Candidate, Path | None]) -> SimulatedLayout | str:
    point, ranked, path = to_simulate
    simulated = _simulate(point, ranked)
    if path is not None:
        note(path, ranked.choice, {"failed": simulated} if isinstance(simulated, str) else simulated.figures())
    return simulated


def _simulate(point: Point, ranked: Candidate) -> SimulatedLayout | str:
    measured = min(point.num_iterations, _ITERATIONS)
    chosen = point_of(point, ranked.choice).model_copy(update={"num_iterations": measured, "replicates": 1})
    try:
        run = forecast(chosen, workloads=_WORKLOADS, detail=False, compares=False).run
    except ClustersimError as error:
        return str(error)
    return SimulatedLayout(ranked, run.iteration_s, run.samples_per_s, dict(run.breakdown_s))


_WORKLOADS = Workloads()
"""Cache of this process for data of the model's layers."""
