"""What is tried for the best layouts alone: split layers that compute beside what they send, and how gradients meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from clustersim.planner.journal import Journal
from clustersim.planner.objective import Objective
from clustersim.planner.search import Played, Ranked, play_all
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.sweep.pool import ProcessPool

ALGORITHMS = ("auto", "ring", "double-tree")
BUCKETS = ("100 MiB", "whole")
_LAYOUTS = 3
"""How many of the best layouts are tried with others."""

_MOST = 8
"""How many are simulated at most, the best bounds first."""

_LEAST_SHARE = 0.01
"""What communication costs below this share of an iteration is nothing to gain from."""


def tuned(
    point: Point,
    best: Sequence[Played],
    objective: Objective,
    ranked_of: Callable[[Choice], Ranked | None],
    pool: ProcessPool,
    journal: Journal | None = None,
) -> list[Played]:
    """Return what other ways of the best layouts make of these, for better or worse.

    First split layers compute beside what they send, and then gradients meet otherwise, of the best of both. `best` are
    in their order. `ranked_of` gives a choice its bound, None where it does not fit; what is no better than the best by
    that is left out. Nothing is tried where what it is about costs nothing, nor of what the scenario gives.
    """
    first = objective.of(best[0].choice, best[0].iteration_s)

    def tried(choices: Iterable[Choice]) -> list[Played]:
        every = (each for each in map(ranked_of, choices) if each is not None)
        asked = [each for each in every if objective.of(each.choice, each.least_s) < first]
        asked.sort(key=lambda each: objective.of(each.choice, each.least_s))
        return play_all(point, asked[:_MOST], pool, journal)[0]

    beside = tried(overlapped(point, best))
    ahead = sorted([*best, *beside], key=lambda each: objective.of(each.choice, each.iteration_s))[:_LAYOUTS]
    return beside + tried(replace(played.choice, exchange=way) for played in ahead for way in ways(point, played))


def overlapped(point: Point, best: Sequence[Played]) -> Iterator[Choice]:
    """Go through the best layouts that split layers and their tokens, with products computed beside what they send."""
    if "tensor_overlap" in point.parallelism.model_fields_set:
        return
    split = (each for each in best if each.choice.layout.sequence_parallel and not each.choice.layout.tensor_overlap)
    for played in islice(filter(_communicates, split), _LAYOUTS):
        choice = played.choice
        yield replace(choice, layout=choice.layout.model_copy(update={"tensor_overlap": True}))


def ways(point: Point, played: Played) -> Iterator[tuple[tuple[str, str], ...]]:
    """Go through other algorithms and buckets for a layout, as far as copies exchange by them and that costs something.

    Copies that share everything out exchange units, and no buckets.
    """
    strategy, sharding = point.strategy, played.choice.layout.sharding
    if played.choice.grid.num_replicas == 1 or not _communicates(played):
        return
    now = {"algorithm": str(getattr(strategy, "algorithm", "auto")), "buckets": str(strategy.buckets)}
    tried = {"algorithm": ALGORITHMS, "buckets": BUCKETS if sharding != "zero-3" else ()}
    kept = {key: (now[key],) if key in strategy.model_fields_set else (now[key], *tried[key]) for key in now}
    for algorithm, buckets in product(*(dict.fromkeys(kept[key]) for key in now)):
        way = {key: value for key, value in (("algorithm", algorithm), ("buckets", buckets)) if value != now[key]}
        other = strategy.model_copy(update=way)
        if way and not (sharding and other.sharding_mistakes(sharding)):
            yield tuple(way.items())


def _communicates(played: Played) -> bool:
    return played.communication_s / played.iteration_s >= _LEAST_SHARE
