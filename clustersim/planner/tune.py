"""Variants of the best layouts: overlap of tensor-parallel communication, and other gradient exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from clustersim.planner.objective import Objective
from clustersim.planner.queue import Candidate
from clustersim.planner.search import Answer, SimulatedLayout, Simulator
from clustersim.planner.space import Choice
from clustersim.scenario import Point

ALGORITHMS = ("auto", "ring", "double-tree")
BUCKETS = ("100 MiB", "whole")
_LAYOUTS = 3
"""Number of best layouts whose variants are tried."""

_MOST = 8
"""Maximum number of simulated variants, the best bounds first."""

_LEAST_SHARE = 0.01
"""Minimum share of communication in an iteration for which variants are tried."""


def tune(
    simulator: Simulator,
    best: Sequence[SimulatedLayout],
    objective: Objective,
    ranked_of: Callable[[Choice], Candidate | None],
    tuned: list[SimulatedLayout],
) -> None:
    """Simulate variants of the best layouts, and add the results to `tuned`, better or worse.

    First tensor-parallel communication is overlapped; then, for the best of both, other gradient exchanges are tried.
    `best` is sorted. `ranked_of` returns a choice with its bound, None if it does not fit; variants with a bound no
    better than the best layout are skipped. Variants are tried only if their communication has a cost, and not for keys
    that the scenario gives.
    """
    first = objective.of(best[0].choice, best[0].iteration_s)

    def keep(_: Candidate, answer: Answer) -> None:
        if isinstance(answer, SimulatedLayout):
            tuned.append(answer)

    def simulate(choices: Iterable[Choice]) -> None:
        every = []
        for choice in choices:
            simulator.deadline.check()
            every += [each for each in (ranked_of(choice),) if each is not None]
        to_simulate = [each for each in every if objective.of(each.choice, each.least_s) < first]
        to_simulate.sort(key=lambda each: objective.of(each.choice, each.least_s))
        num_before = len(tuned)
        tuned[num_before:] = simulator.simulate_all(to_simulate[:_MOST], keep)[0]

    simulate(overlapped(simulator.point, best))
    ahead = sorted([*best, *tuned], key=lambda each: objective.of(each.choice, each.iteration_s))[:_LAYOUTS]
    simulate(
        replace(simulated.choice, exchange=variant)
        for simulated in ahead
        for variant in exchange_variants(simulator.point, simulated)
    )


def overlapped(point: Point, best: Sequence[SimulatedLayout]) -> Iterator[Choice]:
    """Yield the best layouts with tensor and sequence parallelism, with communication overlapped with compute."""
    if "tensor_overlap" in point.parallelism.model_fields_set:
        return
    split = (each for each in best if each.choice.layout.sequence_parallel and not each.choice.layout.tensor_overlap)
    for simulated in islice(filter(_communicates, split), _LAYOUTS):
        choice = simulated.choice
        yield replace(choice, layout=choice.layout.model_copy(update={"tensor_overlap": True}))


def exchange_variants(point: Point, simulated: SimulatedLayout) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield other algorithms and buckets for a layout whose replicas exchange gradients at a cost.

    With `zero-3`, replicas exchange units instead of buckets.
    """
    strategy, sharding = point.strategy, simulated.choice.layout.sharding
    if simulated.choice.grid.num_replicas == 1 or not _communicates(simulated):
        return
    now = {"algorithm": str(getattr(strategy, "algorithm", "auto")), "buckets": str(strategy.buckets)}
    tried = {"algorithm": ALGORITHMS, "buckets": BUCKETS if sharding != "zero-3" else ()}
    kept = {key: (now[key],) if key in strategy.model_fields_set else (now[key], *tried[key]) for key in now}
    for algorithm, buckets in product(*(dict.fromkeys(kept[key]) for key in now)):
        variant = {key: value for key, value in (("algorithm", algorithm), ("buckets", buckets)) if value != now[key]}
        other = strategy.model_copy(update=variant)
        if variant and not (sharding and other.sharding_mistakes(sharding)):
            yield tuple(variant.items())


def _communicates(simulated: SimulatedLayout) -> bool:
    return simulated.communication_s / simulated.iteration_s >= _LEAST_SHARE
