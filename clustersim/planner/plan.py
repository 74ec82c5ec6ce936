"""The best layouts of a scenario's model on given numbers of GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
from clustersim.planner.bounding import NO_HOST_MEMORY, Bounding
from clustersim.planner.journal import Journal, key_of
from clustersim.planner.objective import NAMES, Objective, dollars_per_sample, joules_per_sample
from clustersim.planner.queue import Candidate, LayoutQueue
from clustersim.planner.reasons import reason
from clustersim.planner.request import PlanRequest, plan_request
from clustersim.planner.rule_of_thumb import RULE_OF_THUMB, rules_of_thumb
from clustersim.planner.search import Deadline, Search, SimulatedLayout, Simulator, TimeIsUp, simulate_best_first
from clustersim.planner.space import Choice
from clustersim.planner.tune import tune
from clustersim.scenario import Scenario
from clustersim.simulate import AnchorFit
from clustersim.sweep.pool import ProcessPool

PLAN_SCHEMA = "clustersim.plan/1"
Progress = Callable[[float, str], None]
Ended = Literal["done", "time", "interrupted"]
"""Why a search ended: nothing better can be left, the time limit, or an interruption."""

BOUND = "its bound is worse than what was simulated"
STOPPED = "it was not simulated before the search was stopped"

_SEARCH_SHARE = 0.85
"""Share of a time limit for the search; the rest is for variants of the best, and for the best as run."""

_MOST_SHARE = 0.2
"""Share of a time limit for the simulation of a layout; those that take longer come again near the end."""


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

    def row(self) -> dict[str, Any]:
        """Return the layout as a short row: the layout as text, and the figures that a frontier needs."""
        return {
            "num_gpus": self.choice.num_gpus,
            "batch": self.choice.batch,
            "layout": self.choice.text(),
            "iteration_s": self.iteration_s,
            "samples_per_s": self.samples_per_s,
            "memory_bytes": self.memory_bytes,
            "dollars_per_sample": self.dollars_per_sample,
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
            "rule_of_thumb": self.rule_of_thumb and {"rule": RULE_OF_THUMB, **self.rule_of_thumb.to_dict()},
            "simulated": [entry.row() for entry in self.simulated],
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
    batch sizes, by default the scenario's. GPUs that split layers share a host unless `across_hosts`. What is in `also`
    is compared too: `sharding_over`, `offload`, `recompute`, `dualpipe`, `expert_exchange`, or `all` of them. `workers`
    is the number of processes, 0 for one per core; the result of a search that is done does not depend on it. Simulated
    layouts are saved in the file `resume`; those that are already there for the same request are not simulated again.
    After `time_limit_s` the search ends with the best layouts so far; if there is none, the layout of the rule of thumb
    is simulated whatever the time.
    """
    if objective not in NAMES:
        raise unknown_name("objective", objective, NAMES)
    check_number("top", top, least=1, is_whole=True)
    check_number("workers", workers, least=0, is_whole=True)
    if time_limit_s is not None:
        check_number("time_limit_s", time_limit_s, above=0)
    begin_s = time.monotonic()
    request = plan_request(scenario, num_gpus, batches, overrides, across_hosts, also)
    return _Planning(request, objective, top, progress, resume, begin_s, time_limit_s).plan(workers)


class _Planning:
    """State of a search that began at `begin_s`."""

    def __init__(
        self,
        request: PlanRequest,
        objective: str,
        top: int,
        progress: Progress,
        resume: str | Path | None,
        begin_s: float,
        time_limit_s: float | None,
    ):
        self._request, self._top, self._on_progress = request, top, progress
        self._deadlines = [
            Deadline(None if time_limit_s is None else begin_s + share * time_limit_s) for share in (_SEARCH_SHARE, 1.0)
        ]
        self._layouts = Bounding(request)
        self._gpu = self._layouts.gpu
        price = price_of(self._gpu.name, self._gpu.dollars_per_hour, request.point.prices)
        self._priced = replace(self._gpu, dollars_per_hour=price)
        self._objective = Objective(next(name for name in NAMES if name == objective), self._priced)
        self._queue = LayoutQueue(self._layouts.families, self._objective, self._layouts.steps, self._check)
        self._search, self._tuned = Search(), list[SimulatedLayout]()
        self._rules: list[Candidate] | None = None
        self._most_s = None if time_limit_s is None else _MOST_SHARE * time_limit_s
        self._is_tuned = False
        self._ended: Ended = "interrupted"
        self._runs: dict[str, float] = {}
        largest = self._layouts.costs[max(request.num_gpus)]
        self._journal = None if resume is None else Journal.open(resume, largest)

    def plan(self, workers: int) -> Plan:
        """Return the plan, partial after an interruption; raise InputError if no layout fits."""
        search = self._search
        try:
            with ProcessPool(workers) as pool:
                for act in (self._simulate, self._have_one, self._improve):
                    try:
                        act(pool)
                    except TimeIsUp:
                        self._ended = "time"
        except KeyboardInterrupt:
            self._ended = "interrupted"
            if not search.simulated and not search.unfinished:
                raise
        search.simulated += search.unfinished
        for _, why in search.failed:
            self._layouts.count(f"could not be simulated: {why.splitlines()[0]}")
        if not search.simulated:
            raise self._request.scenario.located(self._nothing_error())
        self._count_left()
        return self._plan()

    def _plan(self) -> Plan:
        request, every = self._request, [*self._search.simulated, *self._tuned]
        best, rule = self._as_run(every), self._rule
        entries = tuple(self._entry(each, best[0]) for each in best)
        discarded = {why: num for why, num in self._layouts.discarded.items() if num}
        tokens = self._layouts.costs[request.num_gpus[0]].setup.model.tokens
        return Plan(
            name=request.scenario.name,
            objective=self._objective.name,
            gpu=self._gpu.name,
            num_layouts=len(every) + sum(discarded.values()),
            num_simulated=len(every),
            discarded=discarded,
            best=entries[: self._top],
            stopped=self._ended == "interrupted",
            software=request.software,
            transport=request.point.transport,
            left_out=request.left_out,
            anchor=request.anchor,
            fixed=request.given,
            tokens_per_sample=tokens,
            ended=self._ended,
            rule_of_thumb=None if rule is None else self._entry(rule, best[0]),
            gap=self._gap(best[0]),
            simulated=entries,
            gpu_memory_bytes=self._gpu.memory_bytes,
            gpu_dollars_per_hour=self._priced.dollars_per_hour,
            train_samples=request.point.num_samples(tokens),
            scenario_text=request.scenario_of(best[0].choice).yaml(),
        )

    def _simulate(self, pool: ProcessPool) -> None:
        """Simulate the rule of thumb and the layouts that may be among the best."""
        self._queue.bound_all()
        self._rules = self._of_rule()
        point, (deadline, _) = self._request.point, self._deadlines
        simulator = Simulator(point, pool, self._journal, deadline, self._most_s)
        simulate_best_first(
            simulator, self._queue, self._objective, self._top, self._on_progress, self._search, self._rules
        )
        self._ended = "done"

    def _of_rule(self) -> list[Candidate]:
        """Return the layouts of the rule of thumb."""
        rules = rules_of_thumb(self._layouts.families, self._layouts.first_that_fits)
        return [each for each in map(self._layouts.with_bound, rules) if each is not None]

    def _have_one(self, pool: ProcessPool) -> None:
        """Simulate the rule of thumb whatever the time, if nothing has been simulated before the end."""
        search = self._search
        if self._ended == "done" or search.simulated or search.unfinished:
            return
        self._on_progress(0.0, "rule of thumb")
        self._rules = self._of_rule() if self._rules is None else self._rules
        simulator = Simulator(self._request.point, pool, self._journal)
        search.simulated, search.failed = simulator.simulate_all(self._rules)

    @property
    def _rule(self) -> SimulatedLayout | None:
        """The best layout of the rule of thumb; None if none was simulated."""
        of_rule = {each.choice for each in self._rules or ()}
        return min((each for each in self._search.simulated if each.choice in of_rule), key=self._value, default=None)

    def _improve(self, pool: ProcessPool) -> None:
        """Simulate variants of the best layouts, and the best as `clustersim run` does."""
        search, (_, deadline) = self._search, self._deadlines
        search.simulated += search.unfinished
        search.unfinished.clear()
        search.simulated.sort(key=self._value)
        if not search.simulated:
            return
        deadline.check()
        self._on_progress(0.9, "variants of the best")
        simulator = Simulator(self._request.point, pool, self._journal, deadline)
        tune(simulator, search.simulated, self._objective, self._layouts.with_bound, self._tuned)
        self._is_tuned = True
        self._on_progress(0.95, "the best, as run")
        best = self._best_of_each([*search.simulated, *self._tuned])[: min(self._top, AS_RUN)]
        usual = [replace(each.choice, exchange=()) for each in best]
        rule = [] if self._rule is None else [self._rule.choice]
        choices = dict.fromkeys([*(each.choice for each in best), *usual, *rule])
        run_times(list(choices), self._request, pool, self._runs, deadline)

    def _check(self, share: float) -> None:
        """Tell how far the bounds are, and stop when the time is over."""
        if not self._queue.is_bounded:
            self._on_progress(0.5 * share, "bounds")
        self._deadlines[0].check()

    def _gap(self, best: SimulatedLayout) -> float | None:
        """Return how much better a layout that was not simulated could be, by its bound; None if it is unknown.

        Variants of simulated layouts that were not tried have the bounds of these.
        """
        if self._ended == "done" or not self._queue.is_bounded:
            return 0.0 if self._ended == "done" else None
        own, left = self._value(best), self._queue.least_left(self._taken)
        if not self._is_tuned:
            left = min([left, *map(self._least_value, self._search.simulated)])
        if self._objective.name == "samples_per_s":
            return max(own / left - 1, 0.0)
        return max(1 - left / own, 0.0)

    def _least_value(self, simulated: SimulatedLayout) -> float:
        return self._objective.of(simulated.choice, simulated.ranked.least_s)

    def _count_left(self) -> None:
        """Count the layouts that were not simulated although nothing is wrong with them."""
        discarded = self._layouts.discarded
        num_left = self._layouts.num_layouts - len(self._search.simulated) - sum(discarded.values())
        num_stopped = 0
        if self._ended != "done":
            worst = self._value(self._search.simulated[: self._top][-1])
            enough = len(self._search.simulated) >= self._top
            num_stopped = num_left
            if self._queue.is_bounded:
                num_stopped = min(num_left, self._queue.num_left(worst if enough else inf, self._taken))
        self._layouts.count(STOPPED, num_stopped)
        self._layouts.count(BOUND, num_left - num_stopped)

    @property
    def _taken(self) -> set[Choice]:
        """Choices that were simulated, or could not be."""
        return {*(each.choice for each in self._search.simulated), *(choice for choice, _ in self._search.failed)}

    def _nothing_error(self) -> InputError:
        """Return why no layout has been simulated."""
        if self._search.failed:
            return InputError(f"no layout could be simulated: {self._search.failed[0][1]}", key="parallelism")
        num = self._layouts.discarded.get(NO_HOST_MEMORY)
        if num:
            return InputError(f"no layout could be simulated: {NO_HOST_MEMORY} ({num} of them)", key="parallelism")
        return self._layouts.no_layout_error()

    def _best_of_each(self, simulated: Sequence[SimulatedLayout]) -> list[SimulatedLayout]:
        """Return each layout with its best gradient exchange, the best layout first."""
        best: dict[tuple[int, int, str], SimulatedLayout] = {}
        for each in sorted(simulated, key=self._value):
            layout = replace(each.choice, exchange=())
            best.setdefault((layout.num_gpus, layout.batch, layout.text()), each)
        return list(best.values())

    def _as_run(self, simulated: Sequence[SimulatedLayout]) -> list[SimulatedLayout]:
        """Return each layout once, the best first: those that are known as `clustersim run` forecasts them by that.

        Of a layout it is the exchange that is better as run: settings that a plan leaves out may turn the order.
        """
        ranked = self._best_of_each(simulated)
        found = {each.choice: each for each in simulated}
        num_known = next((num for num, each in enumerate(ranked) if key_of(each.choice) not in self._runs), len(ranked))
        head = []
        for each in ranked[:num_known]:
            usual = found.get(replace(each.choice, exchange=()))
            both = [each, *([usual] if usual is not None and key_of(usual.choice) in self._runs else [])]
            head.append(min(both, key=self._value_as_run))
        return [*sorted(head, key=self._value_as_run), *ranked[num_known:]]

    def _value_as_run(self, simulated: SimulatedLayout) -> float:
        return self._objective.of(simulated.choice, self._runs[key_of(simulated.choice)])

    def _value(self, simulated: SimulatedLayout) -> float:
        return self._objective.of(simulated.choice, simulated.iteration_s)

    def _entry(self, simulated: SimulatedLayout, best: SimulatedLayout) -> Entry:
        choice, gpu = simulated.choice, self._gpu
        costs = self._layouts.costs[choice.num_gpus]
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
            reason=reason(simulated, best, costs.links, self._layouts.costs[best.choice.num_gpus].links),
        )
