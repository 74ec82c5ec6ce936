"""Best-first search: layouts are simulated, the best expected times first, until no other can be among the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.errors import ClustersimError, TooLongError
from clustersim.planner.journal import Journal, note
from clustersim.planner.layout_costs import point_of
from clustersim.planner.objective import Objective
from clustersim.planner.queue import Candidate, LayoutQueue
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool
from clustersim.sweep.time_limit import within
from clustersim.units import format_duration

_ROUND = 4
"""Layouts simulated between two checks of the stop criterion; fixed, so that the result does not depend on the number
of processes."""

_LATE = 2
"""Layouts that took too long are simulated again when only the time for so many is left."""

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
Answer = SimulatedLayout | str | None
"""The result of a choice, why it failed, or None if its simulation was ended because it took too long."""


@dataclass
class Search:
    """Layouts simulated so far, the best first, and those that failed with the reason.

    `unfinished` are the simulated layouts of a round that has not ended. `too_long` are those whose simulation was
    ended before its result.
    """

    simulated: list[SimulatedLayout] = field(default_factory=list)
    failed: list[tuple[Choice, str]] = field(default_factory=list)
    unfinished: list[SimulatedLayout] = field(default_factory=list)
    too_long: list[Candidate] = field(default_factory=list)


class TimeIsUp(Exception):
    """The time limit of a search is over."""


class Deadline:
    """The end of a search's time, at `end_s` of `clock`, which all processes of a machine share; None is no limit."""

    def __init__(self, end_s: float | None = None, clock: Callable[[], float] = time.monotonic):
        self.end_s, self._clock = end_s, clock

    def check(self) -> None:
        """Raise TimeIsUp if the time is over."""
        if self.left_s() <= 0:
            raise TimeIsUp

    def left_s(self) -> float:
        """Return the seconds that are left, infinite without a limit."""
        return inf if self.end_s is None else self.end_s - self._clock()


def left_s(end_s: float | None) -> float | None:
    """Return the seconds until the end of a deadline, 0 after it; None for no limit."""
    return None if end_s is None else max(0.0, Deadline(end_s).left_s())


@dataclass
class Simulator:
    """What simulations of one search have in common: the training, processes, earlier results, and the time limit.

    A simulation is ended at the time limit, or when it has taken `most_s` seconds.
    """

    point: Point
    pool: ProcessPool
    journal: Journal | None = None
    deadline: Deadline = field(default_factory=Deadline)
    most_s: float | None = None

    def is_late(self) -> bool:
        """Return whether layouts that took too long are to be simulated before the time is over."""
        return self.most_s is not None and self.deadline.left_s() < _LATE * self.most_s

    def simulate_all(
        self,
        ranked: Sequence[Candidate],
        on_result: Callable[[Candidate, Answer], None] = lambda candidate, answer: None,
    ) -> tuple[list[SimulatedLayout], list[tuple[Choice, str]]]:
        """Return the results of choices in their order, and those that failed with the reason.

        Results in the journal are not simulated again; new ones are added to it. `on_result` takes each result, or why
        it failed, as soon as it is there, and None for a simulation that took too long. TimeIsUp is raised at the end
        if the time is over.
        """
        known = [None if self.journal is None else _from_journal(each, self.journal) for each in ranked]
        path = None if self.journal is None else self.journal.path
        left = [each for each, answer in zip(ranked, known, strict=True) if answer is None]
        for each, answer in zip(ranked, known, strict=True):
            if answer is not None:
                on_result(each, answer)
        to_simulate = [_Task(self.point, each, path, self.deadline.end_s, self.most_s) for each in left]
        made = self.pool.map(_simulate_one, to_simulate, on_result=lambda number, each: on_result(left[number], each))
        new = iter(made)
        answers = [next(new) if answer is None else answer for answer in known]
        self.deadline.check()
        simulated = [answer for answer in answers if isinstance(answer, SimulatedLayout)]
        failed = [
            (each.choice, answer) for each, answer in zip(ranked, answers, strict=True) if isinstance(answer, str)
        ]
        return simulated, failed


def simulate_best_first(
    simulator: Simulator,
    queue: LayoutQueue,
    objective: Objective,
    top: int,
    on_progress: OnProgress,
    search: Search,
    firsts: Sequence[Candidate] = (),
) -> None:
    """Simulate layouts in rounds and store the results in `search` after each, so that they survive an interruption.

    The search goes on while a layout of the queue has a bound better than the worst of the best `top`; `firsts` are
    simulated whatever their bounds. What takes too long, and layouts that may take as long, come at the end.
    """
    simulated, pace, taken = search.simulated, _Pace(on_progress, simulator.deadline), {each.choice for each in firsts}
    batch = list(firsts)
    while True:
        simulated.sort(key=lambda each: objective.of(each.choice, each.iteration_s))
        worst = None
        if len(simulated) >= top:
            worst = objective.of(simulated[top - 1].choice, simulated[top - 1].iteration_s)
        limited = simulator
        if search.too_long and simulator.is_late():
            limited, batch = replace(simulator, most_s=None), _again(search, simulator.pool.num_workers)
        else:
            following = (each for each in iter(partial(queue.take, worst), None) if each.choice not in taken)
            batch += islice(following, max(0, _ROUND - len(batch)))
        if not batch:
            simulator, batch = replace(simulator, most_s=None), _again(search, len(search.too_long))
            if not queue.resume() and not batch:
                return
            continue
        left = None if worst is None else queue.num_better_than(worst)
        pace.begin(len(batch), left)
        made, errors = limited.simulate_all(batch, partial(_keep, search, queue, pace, left))
        taken.update(each.choice for each in batch)
        search.unfinished.clear()
        search.failed += errors
        simulated += made
        batch = []


def _again(search: Search, num: int) -> list[Candidate]:
    """Remove the best of the layouts that took too long, and return them."""
    search.too_long.sort(key=lambda each: each.expected_s / each.choice.batch)
    found, search.too_long[:] = search.too_long[:num], search.too_long[num:]
    return found


def _keep(
    search: Search, queue: LayoutQueue, pace: _Pace, left: int | None, candidate: Candidate, answer: Answer
) -> None:
    """Note the result of a layout of a round."""
    pace.tell(left)
    if isinstance(answer, SimulatedLayout):
        search.unfinished.append(answer)
    elif answer is None:
        search.too_long.append(candidate)
        queue.put_off(candidate.choice)


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


class _Task(NamedTuple):
    """A choice to simulate until `end_s` of the clock, and for `most_s` seconds; None is no limit."""

    point: Point
    ranked: Candidate
    path: Path | None
    end_s: float | None
    most_s: float | None


def _simulate_one(task: _Task) -> Answer:
    """Return the result of a choice or why it failed, and write it in the journal; None if it took too long."""
    limits = [limit for limit in (left_s(task.end_s), task.most_s) if limit is not None]
    try:
        simulated = within(min(limits, default=None), lambda: _simulate(task.point, task.ranked))
    except TooLongError:
        return None
    if task.path is not None:
        answer = {"failed": simulated} if isinstance(simulated, str) else simulated.figures()
        note(task.path, task.ranked.choice, answer)
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
