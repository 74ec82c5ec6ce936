"""The best layouts of a scenario's model on so many GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_number
from clustersim.errors import InputError, unknown_name
from clustersim.kernels.kernel_model import rates_of
from clustersim.planner.away import fits_in_hosts
from clustersim.planner.bound import least_iteration_s, least_passes_s
from clustersim.planner.journal import Journal
from clustersim.planner.material import Material
from clustersim.planner.nowhere import in_short, no_layout, nowhere_fits
from clustersim.planner.objective import NAMES, Objective, dollars_per_sample, joules_per_sample
from clustersim.planner.question import Question, ask
from clustersim.planner.reasons import reason
from clustersim.planner.room import Rooms
from clustersim.planner.search import Played, Ranked, Search, best_bound_first, play_best_first
from clustersim.planner.space import Choice
from clustersim.planner.tune import tuned
from clustersim.scenario import Scenario
from clustersim.simulate import Workloads
from clustersim.sweep.pool import ProcessPool

PLAN_SCHEMA = "clustersim.plan/1"
Progress = Callable[[float, str], None]

NO_ROOM = "does not fit in memory"
NO_HOST = "what it offloads does not fit in its hosts' memory"
RECOMPUTES_MORE = "recomputes more than it must: the same layout fits with less"
BOUND = "its bound is worse than what was simulated"
STOPPED = "it was not simulated before the search was stopped"


@dataclass(frozen=True)
class Entry:
    """One of the best layouts; `reason` says why it is behind the first one. SI units; dollars, joules a sample."""

    choice: Choice
    iteration_s: float
    least_s: float
    samples_per_s: float
    mfu: float
    memory_bytes: float
    bubble_share: float
    breakdown_s: Mapping[str, float]
    dollars_per_sample: float | None
    joules_per_sample: float | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return what `clustersim.plan/1` says of a layout."""
        return {
            "num_gpus": self.choice.num_gpus,
            "batch": self.choice.batch,
            "parallelism": self.choice.settings(),
            "strategy": dict(self.choice.exchange),
            "micro_batch": self.choice.micro_batch,
            "iteration_s": self.iteration_s,
            "bound_s": self.least_s,
            "samples_per_s": self.samples_per_s,
            "mfu": self.mfu,
            "memory_bytes": self.memory_bytes,
            "bubble_share": self.bubble_share,
            "breakdown_s": dict(self.breakdown_s),
            "dollars_per_sample": self.dollars_per_sample,
            "joules_per_sample": self.joules_per_sample,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Plan:
    """The best layouts, the first one first, and what became of all others: how many were discarded, by reason.

    One that was `stopped` has the best of those that had been simulated until then.
    """

    name: str
    objective: str
    gpu: str
    num_layouts: int
    num_simulated: int
    discarded: Mapping[str, int]
    best: tuple[Entry, ...]
    stopped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.plan/1` document."""
        return {
            "schema": PLAN_SCHEMA,
            "version": __version__,
            "scenario": self.name,
            "objective": self.objective,
            "gpu": self.gpu,
            "num_layouts": self.num_layouts,
            "num_simulated": self.num_simulated,
            "discarded": dict(self.discarded),
            "stopped": self.stopped,
            "best": [entry.to_dict() for entry in self.best],
        }


def plan(
    scenario: Scenario | str | Path | Mapping[str, Any],
    num_gpus: Sequence[int],
    *,
    objective: str = "samples_per_s",
    top: int = 10,
    batches: Sequence[int] = (),
    overrides: Sequence[str] = (),
    across_hosts: bool = False,
    also: Sequence[str] = (),
    workers: int = 0,
    resume: str | Path | None = None,
    progress: Progress = lambda share, what: None,
) -> Plan:
    """Return the best layouts of a scenario's model on each of some numbers of GPUs.

    What the scenario gives under `parallelism` stays as it is, and everything else there is tried. `batches` are
    those over all GPUs, the scenario's own if there is none. GPUs that split layers share a host unless
    `across_hosts`; `sharding_over` and `offload` are compared too where they are in `also`. `workers` is how many
    processes simulate, as many as there are cores where it is 0; what comes out is the same for any number. What is
    simulated is kept in the file `resume`, and what is there already of the same question is not simulated again.
    """
    if objective not in NAMES:
        raise unknown_name("objective", objective, NAMES)
    check_number("top", top, least=1, is_whole=True)
    check_number("workers", workers, least=0, is_whole=True)
    question = ask(scenario, num_gpus, batches, overrides, across_hosts, also)
    return _Planning(question, objective, top, progress, resume).plan(workers)


class _Planning:
    """A plan while it is made."""

    def __init__(
        self, question: Question, objective: str, top: int, progress: Progress, resume: str | Path | None = None
    ):
        self._question, self._top, self._tell = question, top, progress
        self._workloads = Workloads()
        self._materials = {
            num: Material(question.point.model_copy(update={"num_gpus": num}), self._workloads)
            for num in question.num_gpus
        }
        self._rooms = {num: Rooms(material) for num, material in self._materials.items()}
        self._gpu = self._materials[question.num_gpus[0]].gpu
        self._objective = Objective(next(name for name in NAMES if name == objective), self._gpu)
        self._discarded: dict[str, int] = {}
        self._num_without_host = 0
        self._least_room: tuple[float, Choice] | None = None
        self._search, self._tuned = Search(), list[Played]()
        largest = self._materials[max(question.num_gpus)]
        self._journal = None if resume is None else Journal.open(resume, largest)

    def plan(self, workers: int) -> Plan:
        """Return the plan, of what there is if somebody stops it; raise InputError where no layout fits."""
        ranked, stopped = self._ranked(), False
        num_layouts = len(ranked) + sum(self._discarded.values())
        if not ranked:
            raise self._question.scenario.located(self._nowhere())
        try:
            with ProcessPool(workers) as pool:
                self._simulate(ranked, pool)
        except KeyboardInterrupt:
            if not self._search.played:
                raise
            stopped = True
        played, failed, more = self._search.played, self._search.failed, self._tuned
        for _, why in failed:
            self._count(f"could not be simulated: {why.splitlines()[0]}")
        if not played:
            why = failed[0][1] if failed else f"{NO_HOST} ({self._num_without_host} of them)"
            error = InputError(f"no layout could be simulated: {why}", key="parallelism")
            raise self._question.scenario.located(error)
        self._count(NO_HOST, self._num_without_host)
        self._count(STOPPED if stopped else BOUND, len(ranked) - len(played) - len(failed) - self._num_without_host)
        best = self._best_of_each([*played, *more])
        return Plan(
            name=self._question.scenario.name,
            objective=self._objective.name,
            gpu=self._gpu.name,
            num_layouts=num_layouts + len(more),
            num_simulated=len(played) + len(more),
            discarded={why: num for why, num in self._discarded.items() if num},
            best=tuple(self._entry(each, best[0]) for each in best[: self._top]),
            stopped=stopped,
        )

    def _simulate(self, ranked: Sequence[Ranked], pool: ProcessPool) -> None:
        """Simulate what may be among the best, and then other ways of the best of these."""
        point, objective, search = self._question.point, self._objective, self._search
        bounded = self._in_hosts(best_bound_first(ranked, objective, self._least_s))
        play_best_first(point, bounded, objective, self._top, pool, self._tell, search, self._journal)
        if search.played:
            self._tuned = tuned(point, search.played, objective, self._with_bound, pool, self._journal)

    def _in_hosts(self, bounded: Iterator[Ranked]) -> Iterator[Ranked]:
        """Go through choices without those that offload what their hosts have no room for, which are counted."""
        for each in bounded:
            choice = each.choice
            if choice.layout.offload == "none" or fits_in_hosts(
                self._materials[choice.num_gpus], choice, self._workloads
            ):
                yield each
            else:
                self._num_without_host += 1

    def _best_of_each(self, played: Sequence[Played]) -> list[Played]:
        """Return the best way of exchanging gradients of each layout, the best layout first."""
        best: dict[tuple[int, int, str], Played] = {}
        for each in sorted(played, key=lambda each: self._objective.of(each.choice, each.iteration_s)):
            layout = replace(each.choice, exchange=())
            best.setdefault((layout.num_gpus, layout.batch, layout.text()), each)
        return list(best.values())

    def _least_s(self, choice: Choice) -> float:
        return least_iteration_s(self._materials[choice.num_gpus], choice)

    def _with_bound(self, choice: Choice) -> Ranked | None:
        """Return a choice with its bound; None where it cannot be, or does not fit."""
        try:
            held, least_s = self._rooms[choice.num_gpus].fullest_bytes(choice), self._least_s(choice)
        except InputError:
            return None
        return Ranked(choice, least_s, held) if self._fits(held) else None

    def _fits(self, held: float) -> bool:
        return held <= self._gpu.memory_bytes or not self._question.point.memory_check

    def _ranked(self) -> list[Ranked]:
        """Return every layout that can be, with what its passes take at least."""
        question = self._question
        families = list(question.space(question.batches, question.fixed).families(self._discarded))
        ranked = []
        for number, family in enumerate(families):
            self._tell(0.5 * number / len(families), "bounds")
            found = self._first_that_fits(family)
            if found is not None:
                ranked.append(found)
        return ranked

    def _first_that_fits(self, family: Sequence[Choice]) -> Ranked | None:
        """Return the layout of a family that recomputes least of those that fit, with its bound."""
        rooms = self._rooms[family[0].num_gpus]
        for number, choice in enumerate(family):
            try:
                held = rooms.fullest_bytes(choice)
            except InputError as error:
                self._count(in_short(error), len(family))
                return None
            if self._fits(held):
                self._count(NO_ROOM, number)
                self._count(RECOMPUTES_MORE, len(family) - 1 - number)
                return Ranked(choice, least_passes_s(self._materials[choice.num_gpus], choice), held)
            if self._least_room is None or held < self._least_room[0]:
                self._least_room = held, choice
        self._count(NO_ROOM, len(family))
        return None

    def _nowhere(self) -> InputError:
        if self._least_room is None:
            return no_layout(self._question, self._discarded)
        held, choice = self._least_room
        return nowhere_fits(self._question, self._workloads, self._gpu, held, choice)

    def _count(self, why: str, num: int = 1) -> None:
        self._discarded[why] = self._discarded.get(why, 0) + num

    def _entry(self, played: Played, best: Played) -> Entry:
        choice, gpu = played.choice, self._gpu
        material = self._materials[choice.num_gpus]
        model, precision = material.setup.model, self._question.point.precision
        peak = choice.num_gpus * rates_of(gpu, precision).flop_per_s
        return Entry(
            choice=choice,
            iteration_s=played.iteration_s,
            least_s=played.ranked.least_s,
            samples_per_s=played.samples_per_s,
            mfu=(model.flop + model.flop_backward) * played.samples_per_s / peak,
            memory_bytes=played.ranked.memory_bytes,
            bubble_share=played.breakdown_s["bubble"] / played.iteration_s,
            breakdown_s=played.breakdown_s,
            dollars_per_sample=dollars_per_sample(gpu, choice, played.iteration_s),
            joules_per_sample=joules_per_sample(gpu, choice, played.iteration_s),
            reason=reason(played, best, material.links, self._materials[best.choice.num_gpus].links),
        )
