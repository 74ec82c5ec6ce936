"""How gradients meet, tried for the best layouts alone: other algorithms and bucket sizes, and both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from clustersim.planner.objective import Objective
from clustersim.planner.search import Played, Ranked, play_all
from clustersim.planner.space import Choice
from clustersim.scenario import Point
from clustersim.sweep.pool import Pool

ALGORITHMS = ("auto", "ring", "double-tree")
BUCKETS = ("100 MiB", "whole")
_LAYOUTS = 3
"""How many of the best layouts are tried with others."""

_MOST = 8
"""How many are simulated at most, the best bounds first."""

_LEAST_SHARE = 0.01
"""Exposed communication below this share of an iteration is nothing to gain from."""


def tuned(
    point: Point, best: Sequence[Played], objective: Objective, least_s: Callable[[Choice], float], pool: Pool
) -> list[Played]:
    """Return what other ways of exchanging gradients make of the best layouts, for better or worse.

    `best` are in their order, and `least_s` is the bound of a choice: one that is no better than the best is left out.
    Nothing is tried where copies hardly wait for one another, nor of what the scenario gives.
    """
    first = objective.of(best[0].choice, best[0].iteration_s)
    asked = []
    for played in best[:_LAYOUTS]:
        for way in ways(point, played):
            choice = replace(played.choice, exchange=way)
            ranked = Ranked(choice, least_s(choice), played.ranked.memory_bytes)
            if objective.of(choice, ranked.least_s) < first:
                asked.append(ranked)
    asked.sort(key=lambda each: objective.of(each.choice, each.least_s))
    found, _ = play_all(point, asked[:_MOST], pool)
    return found


def ways(point: Point, played: Played) -> Iterator[tuple[tuple[str, str], ...]]:
    """Go through other algorithms and buckets for a layout, as far as copies exchange by them and wait for it.

    Copies that share everything out exchange units, and no buckets.
    """
    strategy, sharding = point.strategy, played.choice.layout.sharding
    exposed = played.breakdown_s["communication_exposed"] / played.iteration_s
    if played.choice.grid.num_replicas == 1 or exposed < _LEAST_SHARE:
        return
    now = {"algorithm": str(getattr(strategy, "algorithm", "auto")), "buckets": str(strategy.buckets)}
    tried = {"algorithm": ALGORITHMS, "buckets": BUCKETS if sharding != "zero-3" else ()}
    kept = {key: (now[key],) if key in strategy.model_fields_set else (now[key], *tried[key]) for key in now}
    for algorithm, buckets in product(*(dict.fromkeys(kept[key]) for key in now)):
        way = {key: value for key, value in (("algorithm", algorithm), ("buckets", buckets)) if value != now[key]}
        other = strategy.model_copy(update=way)
        if way and not (sharding and other.sharding_mistakes(sharding)):
            yield tuple(way.items())
