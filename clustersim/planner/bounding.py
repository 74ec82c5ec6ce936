"""Valid layouts of a request, their bounds from step to step, and the number of discarded layouts by reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from clustersim.errors import InputError
from clustersim.planner.bound import mean_compute_s, min_compute_s, min_iteration_s
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.no_layout import no_layout, no_layout_fits, short_reason
from clustersim.planner.offloading import fits_in_host_memory
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.played import played_s
from clustersim.planner.queue import Candidate, Family, Step
from clustersim.planner.request import PlanRequest
from clustersim.planner.space import Choice
from clustersim.scenario.layout_checks import layout_mistakes
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup

NO_MEMORY = "does not fit in memory"
NO_HOST_MEMORY = "what it offloads does not fit in its hosts' memory"
RECOMPUTES_MORE = "recomputes more than it must: the same layout fits with less"


class Bounding:
    """The layouts of a request. `discarded` are the numbers of those that are invalid or do not fit, by reason."""

    def __init__(self, request: PlanRequest):
        self._request, self._workloads = request, Workloads()
        self.costs = {
            num: LayoutCosts(request.point.model_copy(update={"num_gpus": num}), self._workloads)
            for num in request.num_gpus
        }
        self._memory = {num: PeakMemory(costs) for num, costs in self.costs.items()}
        self.gpu = self.costs[request.num_gpus[0]].gpu
        self.discarded: dict[str, int] = {}
        self._num_layouts = 0
        self._least_memory: tuple[float, Choice] | None = None

    @cached_property
    def families(self) -> list[list[Choice]]:
        """Layouts that differ only in recomputation; those that are invalid beforehand are counted."""
        found = list(self._request.space(self._request.batches, self._request.fixed).families(self.discarded))
        self._num_layouts = sum(map(len, found)) + sum(self.discarded.values())
        return found

    @property
    def num_layouts(self) -> int:
        """Number of all `families`' layouts, and of those that are invalid beforehand."""
        return self._num_layouts

    @property
    def steps(self) -> tuple[Step, ...]:
        """Functions that tighten the bound of a family, the fastest first."""
        return self._computing, self._fitting, self._played

    def count(self, why: str, num: int = 1) -> None:
        """Count discarded layouts."""
        if num:
            self.discarded[why] = self.discarded.get(why, 0) + num

    def with_bound(self, choice: Choice) -> Candidate | None:
        """Return a choice with its bound; None if it is invalid or does not fit."""
        try:
            held, least_s = self._held(choice), self._least_s(choice)
        except InputError:
            return None
        if not self._has_room(held) or not self._fits_in_hosts(choice):
            return None
        return self._played((choice,), Candidate(choice, least_s, held))

    def no_layout_error(self) -> InputError:
        """Return why no layout is valid or fits."""
        if self._least_memory is None:
            return no_layout(self._request, self.discarded)
        held, choice = self._least_memory
        return no_layout_fits(self._request, self._workloads, self.gpu, held, choice)

    def first_that_fits(self, family: Family) -> Choice | None:
        """Return the layout of a family with the least compute that fits; None if it is invalid or none fits."""
        try:
            found = self._first(family)
        except InputError:
            return None
        return None if found is None or not self._fits_in_hosts(found[1]) else found[1]

    def _computing(self, family: Family, known: Candidate) -> Candidate | None:
        """Return a family with the passes of a mean stage with the least recomputation; its bubble is expected too."""

        def computing() -> Candidate:
            least_s = self._compute_s(family[0])
            return replace(known, least_s=least_s, expected_s=least_s * (1 + _bubble(family[0])))

        return self._checked(family, computing)

    def _fitting(self, family: Family, known: Candidate) -> Candidate | None:
        """Return the fastest layout of a family that fits, with the bound of its passes and its exchange."""
        return self._checked(family, lambda: self._bounded(family))

    def _checked(self, family: Family, make: Callable[[], Candidate | None]) -> Candidate | None:
        """Return what `make` returns; None for an invalid family, which is counted."""
        try:
            return make()
        except InputError as error:
            self.count(short_reason(error), len(family))
            return None

    def _bounded(self, family: Family) -> Candidate | None:
        found = self._first(family)
        if found is None:
            self.count(NO_MEMORY, len(family))
            return None
        number, choice, held = found
        least_s, is_held = self._least_s(choice), self._fits_in_hosts(choice)
        self.count(NO_MEMORY, number)
        self.count(RECOMPUTES_MORE, len(family) - 1 - number)
        self.count(NO_HOST_MEMORY, not is_held)
        return Candidate(choice, least_s, held) if is_held else None

    def _first(self, family: Family) -> tuple[int, Choice, float] | None:
        """Return the layout of a family with the least compute that fits: its number by compute, and its bytes."""
        for number, choice in enumerate(sorted(family, key=self._compute_s)):
            held = self._held(choice)
            if self._has_room(held):
                return number, choice, held
            if self._least_memory is None or held < self._least_memory[0]:
                self._least_memory = held, choice
        return None

    def _played(self, family: Family, known: Candidate) -> Candidate:
        """Return a choice with the bound and the expected time of its program."""
        least_s, expected_s = played_s(self.costs[known.choice.num_gpus], known.choice, self._workloads)
        least_s = max(least_s, known.least_s)
        return replace(known, least_s=least_s, expected_s=max(expected_s, least_s))

    def _fits_in_hosts(self, choice: Choice) -> bool:
        if choice.layout.offload == "none":
            return True
        return fits_in_host_memory(self.costs[choice.num_gpus], choice, self._workloads)

    def _has_room(self, held: float) -> bool:
        return held <= self.gpu.memory_bytes or not self._request.point.memory_check

    def _held(self, choice: Choice) -> float:
        """Return the peak bytes of a choice on any GPU; raise InputError if it is invalid."""
        if choice.has_closed_form:
            return self._memory[choice.num_gpus].peak_bytes(choice)
        costs = self.costs[choice.num_gpus]
        point = point_of(costs.point, choice)
        if mistakes := layout_mistakes(point):
            raise InputError(mistakes)
        return sum(Setup(point, self._workloads).memory_bytes(costs.kind).values())

    def _compute_s(self, choice: Choice) -> float:
        bound = min_compute_s if choice.has_closed_form else mean_compute_s
        return bound(self.costs[choice.num_gpus], choice)

    def _least_s(self, choice: Choice) -> float:
        bound = min_iteration_s if choice.has_closed_form else mean_compute_s
        return bound(self.costs[choice.num_gpus], choice)


def _bubble(choice: Choice) -> float:
    """Return about how long a stage waits for others, as a share of its compute."""
    layout, num_stages = choice.layout, choice.grid.pipeline
    passes = 3 if layout.schedule == "zero-bubble" else 1  # only one of a micro-batch's passes is waited for
    return (num_stages - 1) / (layout.micro_batches * layout.chunks * passes)
