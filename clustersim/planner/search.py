"""Best-first search: layouts are simulated in the order of their bounds, until no other can be among the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any

from clustersim.errors import ClustersimError
from clustersim.planner.journal import Journal, note
from clustersim.planner.layout_costs import point_of
from clustersim.planner.objective import Objective
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
class Candidate:
    """A valid choice, a lower bound of its iteration time, and its peak memory on any GPU."""

    choice: Choice
    least_s: float
    memory_bytes: float


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


class BestBoundFirst:
    """Iterator of choices in the order of their bounds; `least_s` computes a bound only when it may be the next.

    The bounds in `ranked` are lower than those of `least_s`, and faster to compute.
    """

    def __init__(self, ranked: Sequence[Candidate], objective: Objective, least_s: Callable[[Choice], float]):
        self._ranked, self._objective, self._least_s = ranked, objective, least_s
        self._waiting = [(objective.of(each.choice, each.least_s), number, False) for number, each in enumerate(ranked)]
        heapify(self._waiting)
        self._least = [each.least_s for each in ranked]
        self._taken: list[tuple[float]] = []
        """Bound of the last choice, which may not be simulated any more."""

    def __iter__(self) -> Iterator[Candidate]:
        return self

    def __next__(self) -> Candidate:
        waiting, least, objective = self._waiting, self._least, self._objective
        while waiting:
            _, number, is_known = heappop(waiting)
            choice = self._ranked[number].choice
            if is_known:
                self._taken = [(objective.of(choice, least[number]),)]
                return replace(self._ranked[number], least_s=least[number])
            least[number] = max(least[number], self._least_s(choice))
            heappush(waiting, (objective.of(choice, least[number]), number, True))
        raise StopIteration

    def least_left(self) -> float | None:
        """Return the best bound of the choices that are not taken yet; None without any."""
        return min((bound for bound, *_ in [*self._waiting, *self._taken]), default=None)

    def num_better_than(self, worst: float) -> int:
        """Return how many choices that are not taken yet have a bound better than `worst`, as far as it is known."""
        return sum(bound < worst for bound, *_ in self._waiting)


def simulate_best_first(
    point: Point,
    bounded: Iterator[Candidate],
    objective: Objective,
    top: int,
    pool: ProcessPool,
    on_progress: OnProgress,
    search: Search,
    journal: Journal | None = None,
    num_better_than: Callable[[float], int] = lambda worst: 0,
) -> None:
    """Simulate layouts in rounds and store the results in `search` after each, so that they survive an interruption.

    `bounded` is in the order of bounds. The search goes on while a bound is better than the worst of the best `top`;
    `num_better_than` says how many bounds still are, for the estimate of the time that is left.
    """
    simulated, pace = search.simulated, _Pace(on_progress)
    following = next(bounded, None)
    while following is not None:
        worst = (
            objective.of(simulated[top - 1].choice, simulated[top - 1].iteration_s) if len(simulated) >= top else None
        )
        if worst is not None and objective.of(following.choice, following.least_s) >= worst:
            break
        batch = [following, *islice(bounded, (_ROUND if simulated else max(_ROUND, top)) - 1)]
        following = next(bounded, None)
        left = None if worst is None else num_better_than(worst) + (following is not None)

        def keep(answer: SimulatedLayout | str, left: int | None = left) -> None:
            pace.tell(left)
            if isinstance(answer, SimulatedLayout):
                search.unfinished.append(answer)

        pace.begin(len(batch), left)
        made, errors = simulate_all(point, batch, pool, journal, keep)
        search.unfinished.clear()
        search.failed += errors
        simulated += made
        simulated.sort(key=lambda each: objective.of(each.choice, each.iteration_s))


class _Pace:
    """Number of simulated layouts and those to come, and the time that they take at most."""

    def __init__(self, on_progress: OnProgress, clock: Callable[[], float] = time.monotonic):
        self._on_progress, self._clock, self._begin_s = on_progress, clock, clock()
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
            text += f", at most {format_duration((self._clock() - self._begin_s) / done * (most - done))} left"
        self._on_progress(0.5 + 0.4 * done / (most + (_ROUND if left is None else 0)), text)


def simulate_all(
    point: Point,
    ranked: Sequence[Candidate],
    pool: ProcessPool,
    journal: Journal | None = None,
    on_result: Callable[[SimulatedLayout | str], None] = lambda answer: None,
) -> tuple[list[SimulatedLayout], list[tuple[Choice, str]]]:
    """Return the results of choices in their order, and those that failed with the reason.

    Results in a journal are not simulated again; new ones are added to it. `on_result` takes each result, or why it
    failed, as soon as it is there.
    """
    known = [None if journal is None else _from_journal(each, journal) for each in ranked]
    path = None if journal is None else journal.path
    to_simulate = [(point, each, path) for each, answer in zip(ranked, known, strict=True) if answer is None]
    for answer in known:
        if answer is not None:
            on_result(answer)
    made = pool.map(_simulate_one, to_simulate, on_result=lambda _, answer: on_result(answer)) if to_simulate else ()
    new = iter(made)
    answers = [next(new) if answer is None else answer for answer in known]
    simulated = [answer for answer in answers if isinstance(answer, SimulatedLayout)]
    failed = [(each.choice, answer) for each, answer in zip(ranked, answers, strict=True) if isinstance(answer, str)]
    return simulated, failed


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
