"""Layouts in the order in which they are simulated: the best expected times first, each bounded no earlier than needed.

A family has layouts that differ only in recomputation. Its bounds get tighter and slower to compute from step to step,
and it is dropped as soon as one of them is no better than what was simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from clustersim.planner.objective import Objective
from clustersim.planner.space import Choice

Family = Sequence[Choice]


@dataclass(frozen=True)
class Candidate:
    """A valid choice, a lower bound of its iteration time, its peak memory on any GPU, and its expected time."""

    choice: Choice
    least_s: float
    memory_bytes: float = 0.0
    expected_s: float = 0.0


_MOST_AT_ONCE = {-1: 2, -2: 64}
"""Times that the last step and the one before it are taken between two choices: a first good choice comes soon.

All of them together cost less than the simulation of a choice.
"""

Step = Callable[[Family, Candidate], Candidate | None]
"""Returns a family's candidate with a tighter bound; None if the family has no valid layout that fits."""


class LayoutQueue:
    """Families to simulate. `steps` tighten the bounds of a family, which are 0 s before the first step.

    All families take the first step at once. `check` is called before each step: it may raise an exception to stop.
    """

    def __init__(
        self,
        families: Sequence[Family],
        objective: Objective,
        steps: Sequence[Step],
        check: Callable[[float], None] = lambda share: None,
    ):
        self._families, self._objective, self._steps, self._check = families, objective, steps, check
        self._known: dict[int, Candidate] = {}  # by number of family: those that wait or were taken
        self._waiting: list[list[tuple[float, int]]] = [[] for _ in range(len(steps) + 1)]  # value, number; by steps
        self._slow: set[Hashable] = set()
        self._put_off: list[tuple[int, float, int]] = []  # steps, value, number
        self.is_bounded = False

    def bound_all(self) -> None:
        """Take the first step of each family."""
        for number, family in enumerate(self._families):
            self._check(number / len(self._families))
            self._take_step(number, Candidate(family[0], 0.0), 0)
        self.is_bounded = True

    def take(self, worst: float | None) -> Candidate | None:
        """Return the next choice with a bound better than `worst`, which None stands for infinite; None at the end."""
        taken = [0] * len(self._steps)
        while any(self._waiting):
            step = self._next_step(taken)
            value, number = heappop(self._waiting[step])
            known = self._known[number]
            if worst is not None and self._value(known, known.least_s) >= worst:
                del self._known[number]
            elif self._slow and _kind(known.choice) in self._slow:
                self._put_off.append((step, value, number))
            elif step == len(self._steps):
                return known
            else:
                self._check(1.0)
                taken[step] += 1
                self._take_step(number, known, step)
        return None

    def put_off(self, choice: Choice) -> None:
        """Take no choices whose simulation is about as long as that of this one, until `resume`."""
        self._slow.add(_kind(choice))

    def resume(self) -> bool:
        """Take the choices that were put off like all others; return whether there are any."""
        found, self._put_off = self._put_off, []
        self._slow.clear()
        for step, value, number in found:
            heappush(self._waiting[step], (value, number))
        return bool(found)

    def _next_step(self, taken: Sequence[int]) -> int:
        """Return how many steps the family to go on with has taken, if steps were `taken` so often since a choice.

        It is the best of those whose next step may still be taken; the furthest if there is none.
        """
        num = len(self._steps)
        there = [step for step in range(num, -1, -1) if self._waiting[step]]
        may = [step for step in there if step == num or taken[step] < _MOST_AT_ONCE.get(step - num, inf)]
        return min(may, key=lambda step: self._waiting[step][0][0]) if may else there[0]

    def least_left(self, simulated: Collection[Choice]) -> float:
        """Return the best bound of choices that wait, or were taken and are not in `simulated`; inf without any."""
        left = (each for each in self._known.values() if each.choice not in simulated)
        return min((self._value(each, each.least_s) for each in left), default=inf)

    def num_left(self, worst: float, simulated: Collection[Choice]) -> int:
        """Return how many choices with a bound better than `worst` wait, or were taken and are not in `simulated`."""
        left = (each for each in self._known.values() if each.choice not in simulated)
        return sum(self._value(each, each.least_s) < worst for each in left)

    def num_better_than(self, worst: float) -> int:
        """Return how many waiting choices have a bound better than `worst`, as far as it is known."""
        numbers = [number for waiting in self._waiting for _, number in waiting]
        known = (self._known[number] for number in (*numbers, *(number for _, _, number in self._put_off)))
        return sum(self._value(each, each.least_s) < worst for each in known)

    def _take_step(self, number: int, known: Candidate, step: int) -> None:
        found = self._steps[step](self._families[number], known)
        if found is None:
            self._known.pop(number, None)
            return
        found = replace(found, least_s=max(found.least_s, known.least_s))
        self._known[number] = found
        value = self._value(found, max(found.least_s, found.expected_s))
        heappush(self._waiting[step + 1], (value, number))

    def _value(self, candidate: Candidate, seconds: float) -> float:
        return self._objective.of(candidate.choice, seconds)


def _kind(choice: Choice) -> Hashable:
    """Return what choices have in common whose simulations take about as long.

    It is along which axes there are several GPUs, and whether state is exchanged in every pass.
    """
    return tuple(size > 1 for size in choice.grid.sizes), choice.layout.sharding in ("zero-2", "zero-3")
