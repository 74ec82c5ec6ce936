"""Layouts are simulated best bound first, until no bound left is better than the tenth best that was simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any

from clustersim.errors import ClustersimError
from clustersim.planner.journal import Journal, note
from clustersim.planner.material import point_of
from clustersim.planner.objective import Objective
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.simulate import Workloads, forecast
from clustersim.sweep.pool import ProcessPool

_ROUND = 4
"""How many are simulated before it is asked again whether others can still be better: the same for any number of
processes, so that what comes out is too."""

_ITERATIONS = 2
"""Iterations that are measured of each: a layout repeats the first of them, or shows here that it does not."""


@dataclass(frozen=True)
class Ranked:
    """A choice that can be, a time that its iteration takes at least, and what it holds on the fullest GPU."""

    choice: Choice
    least_s: float
    memory_bytes: float


@dataclass(frozen=True)
class Played:
    """What came of simulating a choice."""

    ranked: Ranked
    iteration_s: float
    samples_per_s: float
    breakdown_s: dict[str, float]

    @property
    def choice(self) -> Choice:
        return self.ranked.choice

    def figures(self) -> dict[str, Any]:
        """Return what was simulated, without what was known before."""
        return {
            "iteration_s": self.iteration_s,
            "samples_per_s": self.samples_per_s,
            "breakdown_s": self.breakdown_s,
        }

    @property
    def communication_s(self) -> float:
        """What it costs to communicate: waiting for it, and what it takes of the GPUs that compute beside it."""
        return self.breakdown_s["communication_exposed"] + self.breakdown_s["slowed"]


OnProgress = Callable[[float, str], None]


@dataclass
class Search:
    """What was simulated until now, the best first, and what could not be with the reason."""

    played: list[Played] = field(default_factory=list)
    failed: list[tuple[Choice, str]] = field(default_factory=list)


def best_bound_first(
    ranked: Sequence[Ranked], objective: Objective, least_s: Callable[[Choice], float]
) -> Iterator[Ranked]:
    """Go through choices in the order of their bounds, which `least_s` gives: only of those that come near.

    What `ranked` says they take at least is no more than that, and quicker to say.
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


def play_best_first(
    point: Point,
    bounded: Iterator[Ranked],
    objective: Objective,
    top: int,
    pool: ProcessPool,
    tell: OnProgress,
    search: Search,
    journal: Journal | None = None,
) -> None:
    """Simulate layouts, and note what came of them round after round, so that something is left of it if it is stopped.

    `bounded` are in the order of their bounds. Another round is played while a bound beats the worst of the best `top`.
    """
    played, begun = search.played, 0
    ahead = next(bounded, None)
    while ahead is not None:
        worst = objective.of(played[top - 1].choice, played[top - 1].iteration_s) if len(played) >= top else None
        if worst is not None and objective.of(ahead.choice, ahead.least_s) >= worst:
            break
        around = [ahead, *islice(bounded, (_ROUND if played else max(_ROUND, top)) - 1)]
        ahead = next(bounded, None)
        begun += len(around)
        tell(0.5 + 0.5 * begun / (begun + _ROUND), f"{begun} simulated, now {around[0].choice.text()}")
        made, wrong = play_all(point, around, pool, journal)
        search.failed += wrong
        played += made
        played.sort(key=lambda each: objective.of(each.choice, each.iteration_s))


def play_all(
    point: Point, ranked: Sequence[Ranked], pool: ProcessPool, journal: Journal | None = None
) -> tuple[list[Played], list[tuple[Choice, str]]]:
    """Return what was simulated of some choices, in their order, and what could not be with the reason.

    What a journal has of them is not simulated again, and it gets what it has not.
    """
    known = [None if journal is None else _from_journal(each, journal) for each in ranked]
    path = None if journal is None else journal.path
    asked = [(point, each, path) for each, answer in zip(ranked, known, strict=True) if answer is None]
    new = iter(pool.map(_play, asked) if asked else ())
    answers = [next(new) if answer is None else answer for answer in known]
    played = [answer for answer in answers if isinstance(answer, Played)]
    failed = [(each.choice, answer) for each, answer in zip(ranked, answers, strict=True) if isinstance(answer, str)]
    return played, failed


def _from_journal(ranked: Ranked, journal: Journal) -> Played | str | None:
    """Return what came of a choice when it was simulated before, None where it was not."""
    answer = journal.known(ranked.choice)
    if answer is None or "failed" in answer:
        return None if answer is None else str(answer["failed"])
    return Played(ranked, answer["iteration_s"], answer["samples_per_s"], dict(answer["breakdown_s"]))


def _play(asked: tuple[Point, Ranked, Path | None]) -> Played | str:
    point, ranked, path = asked
    played = _simulated(point, ranked)
    if path is not None:
        note(path, ranked.choice, {"failed": played} if isinstance(played, str) else played.figures())
    return played


def _simulated(point: Point, ranked: Ranked) -> Played | str:
    measured = min(point.num_iterations, _ITERATIONS)
    chosen = point_of(point, ranked.choice).model_copy(update={"num_iterations": measured, "replicates": 1})
    try:
        run = forecast(chosen, workloads=_WORKLOADS, detail=False).run
    except ClustersimError as error:
        return str(error)
    return Played(ranked, run.iteration_s, run.samples_per_s, dict(run.breakdown_s))


_WORKLOADS = Workloads()
"""What this process has worked out of the model's layers."""
