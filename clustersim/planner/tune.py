"""How gradients meet, tried for the best layout alone: other algorithms and bucket sizes."""

from __future__ import annotations

from dataclasses import replace

from clustersim.planner.search import Played, play_all
from clustersim.scenario import Point
from clustersim.sweep.pool import Pool

ALGORITHMS = ("ring", "double-tree")
BUCKETS = ("100 MiB", "whole")
_LEAST_SHARE = 0.01
"""Exposed communication below this share of an iteration is nothing to gain from."""


def tuned(point: Point, best: Played, pool: Pool) -> list[Played]:
    """Return what other ways of exchanging gradients make of the best layout; only those that are quicker.

    Nothing is tried where copies do not exchange whole gradients, or hardly wait for them.
    """
    exposed = best.breakdown_s["communication_exposed"] / best.iteration_s
    if best.choice.grid.data == 1 or best.choice.layout.sharding is not None or exposed < _LEAST_SHARE:
        return []
    strategy = point.strategy
    ways = [("algorithm", name) for name in ALGORITHMS if name != getattr(strategy, "algorithm", None)]
    ways += [("buckets", size) for size in BUCKETS if size != strategy.buckets]
    asked = [replace(best.ranked, choice=replace(best.choice, exchange=(way,)), least_s=0.0) for way in ways]
    played, _ = play_all(point, asked, pool)
    return [each for each in played if each.iteration_s < best.iteration_s]
