"""Best-first search: layouts are simulated in the order of their bounds, until no other can be among the best."""

from __future__ import annotations

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
    """Layouts simulated so far, the best first, and those that failed with the reason."""

    simulated: list[SimulatedLayout] = field(default_factory=list)
    failed: list[tuple[Choice, str]] = field(default_factory=list)


def best_bound_first(
    ranked: Sequence[Candidate], objective: Objective, least_s: Callable[[Choice], float]
) -> Iterator[Candidate]:
    """Yield choices in the order of their bounds; `least_s` computes a bound only when it may be the next.

    The bounds in `ranked` are lower than those of `least_s`, and faster to compute.
    """
    waiting = [(objective.of(each.choice, each.least_s), number, False) for number, each in enumerate(ranked)]
    heapify(waiting)
    least = [each.least_s for each in ranked]
    while waiting:
        _, number, is_known = heappop(waiting)
        choice = ranked[number].choice
        if is_known:
            yield replace(ranked[number], least_s=least[number])
        else:
            least[number] = max(least[number], least_s(choice))
            heappush(waiting, (objective.of(choice, least[number]), number, True))


def simulate_best_first(
    point: Point,
    bounded: Iterator[Candidate],
    objective: Objective,
    top: int,
    pool: ProcessPool,
    on_progress: OnProgress,
    search: Search,
    journal: Journal | None = None,
) -> None:
    """Simulate layouts in rounds and store the results in `search` after each, so that they survive an interruption.

    `bounded` is in the order of bounds. The search goes on while a bound is better than the worst of the best `top`.
    """
    simulated, begun = search.simulated, 0
    following = next(bounded, None)
    while following is not None:
        worst = (
            objective.of(simulated[top - 1].choice, simulated[top - 1].iteration_s) if len(simulated) >= top else None
        )
        if worst is not None and objective.of(following.choice, following.least_s) >= worst:
            break
        batch = [following, *islice(bounded, (_ROUND if simulated else max(_ROUND, top)) - 1)]
        following = next(bounded, None)
        begun += len(batch)
        on_progress(0.5 + 0.5 * begun / (begun + _ROUND), f"{begun} simulated, now {batch[0].choice.text()}")
        made, errors = simulate_all(point, batch, pool, journal)
        search.failed += errors
        simulated += made
        simulated.sort(key=lambda each: objective.of(each.choice, each.iteration_s))


def simulate_all(
    point: Point, ranked: Sequence[Candidate], pool: ProcessPool, journal: Journal | None = None
) -> tuple[list[SimulatedLayout], list[tuple[Choice, str]]]:
    """Return the results of choices in their order, and those that failed with the reason.

    Results in a journal are not simulated again; new ones are added to it.
    """
    known = [None if journal is None else _from_journal(each, journal) for each in ranked]
    path = None if journal is None else journal.path
    to_simulate = [(point, each, path) for each, answer in zip(ranked, known, strict=True) if answer is None]
    new = iter(pool.map(_simulate_one, to_simulate) if to_simulate else ())
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
