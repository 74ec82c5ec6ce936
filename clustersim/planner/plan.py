"""The best layouts of a scenario's model on given numbers of GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from clustersim import __version__
from clustersim.arguments import check_number
from clustersim.errors import InputError, unknown_name
from clustersim.hardware.price import price_of
from clustersim.kernels.kernel_model import rates_of
from clustersim.model.layer import Anchoring
from clustersim.planner.as_run import AS_RUN, run_times
from clustersim.planner.bound import min_compute_s, min_iteration_s
from clustersim.planner.journal import Journal, key_of
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.no_layout import no_layout, no_layout_fits, short_reason
from clustersim.planner.objective import NAMES, Objective, dollars_per_sample, joules_per_sample
from clustersim.planner.offloading import fits_in_host_memory
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.reasons import reason
from clustersim.planner.request import PlanRequest, plan_request
from clustersim.planner.search import BestBoundFirst, Candidate, Search, SimulatedLayout, simulate_best_first
from clustersim.planner.space import Choice
from clustersim.planner.tune import tune
from clustersim.scenario import Scenario
from clustersim.simulate import AnchorFit, Workloads
from clustersim.sweep.pool import ProcessPool

PLAN_SCHEMA = "clustersim.plan/1"
Progress = Callable[[float, str], None]
Ended = Literal["done", "time", "interrupted"]
"""Why a search ended: nothing better can be left, the time limit, or an interruption."""

NO_MEMORY = "does not fit in memory"
NO_HOST_MEMORY = "what it offloads does not fit in its hosts' memory"
RECOMPUTES_MORE = "recomputes more than it must: the same layout fits with less"
BOUND = "its bound is worse than what was simulated"
STOPPED = "it was not simulated before the search was stopped"


@dataclass(frozen=True)
class Entry:
    """One of the best layouts; `reason` is why it is worse than the first one. SI units; dollars, joules per sample.

    `run_s` is the iteration time that `clustersim run` forecasts, with all settings of the software; None if unknown.
    """

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
    run_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the layout's entry in `clustersim.plan/1`."""
        return {
            "num_gpus": self.choice.num_gpus,
            "batch": self.choice.batch,
            "parallelism": self.choice.settings(),
            "strategy": dict(self.choice.exchange),
            "micro_batch": self.choice.micro_batch,
            "iteration_s": self.iteration_s,
            "run_iteration_s": self.run_s,
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
    """The best layouts, best first, and the number of discarded layouts by reason.

    If the search was `stopped`, these are the best of the layouts simulated so far. `left_out` are settings of the
    `software` that the plan is without. `fixed` are the keys that the scenario gives, which do not change.

    `ended` says why the search ended, and `gap` how much better a layout that was not simulated could be, by its bound.
    `rule_of_thumb` is the layout that a rule of thumb gives, and `simulated` are all simulated layouts, best first.
    `train_samples` is the length of the training, and `scenario_text` the scenario of the best layout as YAML.
    """

    name: str
    objective: str
    gpu: str
    num_layouts: int
    num_simulated: int
    discarded: Mapping[str, int]
    best: tuple[Entry, ...]
    stopped: bool = False
    software: str = ""
    transport: str = ""
    left_out: tuple[str, ...] = ()
    anchor: AnchorFit | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    tokens_per_sample: int | None = None
    ended: Ended = "done"
    rule_of_thumb: Entry | None = None
    simulated: tuple[Entry, ...] = ()
    gap: float | None = None
    gpu_memory_bytes: float = inf
    gpu_dollars_per_hour: float | None = None
    train_samples: float | None = None
    scenario_text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.plan/1` document."""
        return {
            "schema": PLAN_SCHEMA,
            "version": __version__,
            "scenario": self.name,
            "objective": self.objective,
            "gpu": self.gpu,
            "software": self.software,
            "transport": self.transport,
            "left_out": list(self.left_out),
            "fixed": dict(self.fixed),
            "num_layouts": self.num_layouts,
            "num_simulated": self.num_simulated,
            "discarded": dict(self.discarded),
            "stopped": self.stopped,
            "ended": self.ended,
            "gap": self.gap,
            "tokens_per_sample": self.tokens_per_sample,
            "gpu_memory_bytes": self.gpu_memory_bytes,
            "gpu_dollars_per_hour": self.gpu_dollars_per_hour,
            "train_samples": self.train_samples,
            "anchor": self.anchor and (self.anchor.anchoring or Anchoring())._asdict(),
            "best": [entry.to_dict() for entry in self.best],
            "rule_of_thumb": self.rule_of_thumb and self.rule_of_thumb.to_dict(),
            "simulated": [entry.to_dict() for entry in self.simulated],
            "best_scenario": self.scenario_text,
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
    time_limit_s: float | None = None,
    progress: Progress = lambda share, what: None,
) -> Plan:
    """Return the best layouts of a scenario's model on each number of GPUs.

    Keys that the scenario gives under `parallelism` are fixed; all other keys there are varied. `batches` are global
    batch sizes, by default the scenario's. GPUs that split layers share a host unless `across_hosts`. `sharding_over`
    and `offload` are compared if they are in `also`. `workers` is the number of processes, 0 for one per core; the
    result does not depend on it. Simulated layouts are saved in the file `resume`; those that are
    already there for the same request are not simulated again. After `time_limit_s` no further layout is simulated.
    """
    begin_s = time.monotonic()
    if objective not in NAMES:
        raise unknown_name("objective", objective, NAMES)
    check_number("top", top, least=1, is_whole=True)
    check_number("workers", workers, least=0, is_whole=True)
    request = plan_request(scenario, num_gpus, batches, overrides, across_hosts, also)
    if time_limit_s is not None:
        check_number("time_limit_s", time_limit_s, above=0)
    end_s = None if time_limit_s is None else begin_s + time_limit_s
    return _Planning(request, objective, top, progress, resume, end_s).plan(workers)


class _Planning:
    """State of a search."""

    def __init__(
        self,
        request: PlanRequest,
        objective: str,
        top: int,
        progress: Progress,
        resume: str | Path | None = None,
        end_s: float | None = None,
    ):
        self._end_s = end_s
        self._request, self._top, self._on_progress = request, top, progress
        self._workloads = Workloads()
        self._costs = {
            num: LayoutCosts(request.point.model_copy(update={"num_gpus": num}), self._workloads)
            for num in request.num_gpus
        }
        self._memory = {num: PeakMemory(costs) for num, costs in self._costs.items()}
        self._gpu = self._costs[request.num_gpus[0]].gpu
        price = price_of(self._gpu.name, self._gpu.dollars_per_hour, request.point.prices)
        self._priced = replace(self._gpu, dollars_per_hour=price)
        self._objective = Objective(next(name for name in NAMES if name == objective), self._priced)
        self._discarded: dict[str, int] = {}
        self._num_without_host_memory = 0
        self._least_memory: tuple[float, Choice] | None = None
        self._search, self._tuned = Search(), list[SimulatedLayout]()
        self._is_searched, self._is_over = False, False
        self._least_left: float | None = None
        self._runs: dict[str, float] = {}
        largest = self._costs[max(request.num_gpus)]
        self._journal = None if resume is None else Journal.open(resume, largest)

    def plan(self, workers: int) -> Plan:
        """Return the plan, partial after an interruption; raise InputError if no layout fits."""
        ranked, stopped = self._ranked(), False
        num_layouts = len(ranked) + sum(self._discarded.values())
        if not ranked:
            raise self._request.scenario.located(self._no_layout_error())
        try:
            with ProcessPool(workers) as pool:
                self._simulate(ranked, pool)
        except KeyboardInterrupt:
            if not self._search.simulated and not self._search.unfinished:
                raise
            stopped = True
            self._search.simulated += self._search.unfinished
        simulated, failed, more = self._search.simulated, self._search.failed, self._tuned
        for _, why in failed:
            self._count(f"could not be simulated: {why.splitlines()[0]}")
        if not simulated:
            why = failed[0][1] if failed else f"{NO_HOST_MEMORY} ({self._num_without_host_memory} of them)"
            error = InputError(f"no layout could be simulated: {why}", key="parallelism")
            raise self._request.scenario.located(error)
        self._count(NO_HOST_MEMORY, self._num_without_host_memory)
        num_left = len(ranked) - len(simulated) - len(failed) - self._num_without_host_memory
        self._count(BOUND if self._is_searched else STOPPED, num_left)
        best = self._best_of_each([*simulated, *more])
        ended: Ended = "interrupted" if stopped else "time" if self._is_over else "done"
        tokens = self._costs[self._request.num_gpus[0]].setup.model.tokens
        entries = tuple(self._entry(each, best[0]) for each in best)
        return Plan(
            name=self._request.scenario.name,
            objective=self._objective.name,
            gpu=self._gpu.name,
            num_layouts=num_layouts + len(more),
            num_simulated=len(simulated) + len(more),
            discarded={why: num for why, num in self._discarded.items() if num},
            best=entries[: self._top],
            stopped=stopped,
            software=self._request.software,
            transport=self._request.point.transport,
            left_out=self._request.left_out,
            anchor=self._request.anchor,
            fixed=self._request.given,
            tokens_per_sample=tokens,
            ended=ended,
            gap=None if ended == "done" else self._gap(best[0]),
            simulated=entries,
            gpu_memory_bytes=self._gpu.memory_bytes,
            gpu_dollars_per_hour=self._priced.dollars_per_hour,
            train_samples=self._request.point.num_samples(tokens),
            scenario_text=self._request.scenario_of(best[0].choice).yaml(),
        )

    def _simulate(self, ranked: Sequence[Candidate], pool: ProcessPool) -> None:
        """Simulate the layouts that may be among the best, then variants of the best of these."""
        point, objective, search = self._request.point, self._objective, self._search
        queue = BestBoundFirst(ranked, objective, self._least_s)
        bounded, tell = self._in_time(self._in_hosts(queue)), self._on_progress
        try:
            simulate_best_first(
                point, bounded, objective, self._top, pool, tell, search, self._journal, queue.num_better_than
            )
        finally:
            self._least_left = queue.least_left()
        self._is_searched = not self._is_over
        if search.simulated and not self._is_over:
            tell(0.9, "variants of the best")
            self._tuned = tune(point, search.simulated, objective, self._with_bound, pool, self._journal)
            tell(0.95, "the best, as run")
            best = self._best_of_each([*search.simulated, *self._tuned])[: min(self._top, AS_RUN)]
            self._runs = run_times([each.choice for each in best], self._request, pool)

    def _in_time(self, bounded: Iterator[Candidate]) -> Iterator[Candidate]:
        """Yield choices until the time limit; the first round is always simulated."""
        for each in bounded:
            if self._end_s is not None and self._search.simulated and time.monotonic() >= self._end_s:
                self._is_over = True
                return
            yield each

    def _gap(self, best: SimulatedLayout) -> float | None:
        """Return how much better a layout that was not simulated could be, by its bound; None if it is unknown."""
        own = self._objective.of(best.choice, best.iteration_s)
        if self._least_left is None:
            return None
        if self._objective.name == "samples_per_s":
            return max(own / self._least_left - 1, 0.0)
        return max(1 - self._least_left / own, 0.0)

    def _in_hosts(self, bounded: Iterator[Candidate]) -> Iterator[Candidate]:
        """Yield choices without those whose offloaded state does not fit in their hosts; these are counted."""
        for each in bounded:
            choice = each.choice
            if choice.layout.offload == "none" or fits_in_host_memory(
                self._costs[choice.num_gpus], choice, self._workloads
            ):
                yield each
            else:
                self._num_without_host_memory += 1

    def _best_of_each(self, simulated: Sequence[SimulatedLayout]) -> list[SimulatedLayout]:
        """Return each layout with its best gradient exchange, the best layout first."""
        best: dict[tuple[int, int, str], SimulatedLayout] = {}
        for each in sorted(simulated, key=lambda each: self._objective.of(each.choice, each.iteration_s)):
            layout = replace(each.choice, exchange=())
            best.setdefault((layout.num_gpus, layout.batch, layout.text()), each)
        return list(best.values())

    def _least_s(self, choice: Choice) -> float:
        return min_iteration_s(self._costs[choice.num_gpus], choice)

    def _with_bound(self, choice: Choice) -> Candidate | None:
        """Return a choice with its bound; None if it is invalid or does not fit."""
        try:
            held, least_s = self._memory[choice.num_gpus].peak_bytes(choice), self._least_s(choice)
        except InputError:
            return None
        return Candidate(choice, least_s, held) if self._fits(held) else None

    def _fits(self, held: float) -> bool:
        return held <= self._gpu.memory_bytes or not self._request.point.memory_check

    def _ranked(self) -> list[Candidate]:
        """Return every valid layout that fits, with the bound of its passes."""
        request = self._request
        families = list(request.space(request.batches, request.fixed).families(self._discarded))
        ranked = []
        for number, family in enumerate(families):
            self._on_progress(0.5 * number / len(families), "bounds")
            found = self._first_that_fits(family)
            if found is not None:
                ranked.append(found)
        return ranked

    def _first_that_fits(self, family: Sequence[Choice]) -> Candidate | None:
        """Return the layout with the least recomputation in a family that fits, with its bound."""
        memory = self._memory[family[0].num_gpus]
        for number, choice in enumerate(family):
            try:
                held = memory.peak_bytes(choice)
            except InputError as error:
                self._count(short_reason(error), len(family))
                return None
            if self._fits(held):
                self._count(NO_MEMORY, number)
                self._count(RECOMPUTES_MORE, len(family) - 1 - number)
                return Candidate(choice, min_compute_s(self._costs[choice.num_gpus], choice), held)
            if self._least_memory is None or held < self._least_memory[0]:
                self._least_memory = held, choice
        self._count(NO_MEMORY, len(family))
        return None

    def _no_layout_error(self) -> InputError:
        if self._least_memory is None:
            return no_layout(self._request, self._discarded)
        held, choice = self._least_memory
        return no_layout_fits(self._request, self._workloads, self._gpu, held, choice)

    def _count(self, why: str, num: int = 1) -> None:
        self._discarded[why] = self._discarded.get(why, 0) + num

    def _entry(self, simulated: SimulatedLayout, best: SimulatedLayout) -> Entry:
        choice, gpu = simulated.choice, self._gpu
        costs = self._costs[choice.num_gpus]
        model, precision = costs.setup.model, self._request.point.precision
        peak = choice.num_gpus * rates_of(gpu, precision).flop_per_s
        return Entry(
            choice=choice,
            iteration_s=simulated.iteration_s,
            least_s=simulated.ranked.least_s,
            samples_per_s=simulated.samples_per_s,
            mfu=(model.flop + model.flop_backward) * simulated.samples_per_s / peak,
            memory_bytes=simulated.ranked.memory_bytes,
            bubble_share=simulated.breakdown_s["bubble"] / simulated.iteration_s,
            breakdown_s=simulated.breakdown_s,
            dollars_per_sample=dollars_per_sample(self._priced, choice, simulated.iteration_s),
            joules_per_sample=joules_per_sample(gpu, choice, simulated.iteration_s),
            run_s=self._runs.get(key_of(choice)),
            reason=reason(simulated, best, costs.links, self._costs[best.choice.num_gpus].links),
        )
