"""Small forecasts to compare, each simulated once."""

from __future__ import annotations

from functools import cache
from typing import Any

from clustersim.difference import Difference, PointDifference, diff
from clustersim.results import Run, Sweep
from clustersim.sweep import sweep

SMALL: dict[str, Any] = {
    "name": "small",
    "model": "alexnet",
    "num_gpus": 4,
    "batch": {"per_gpu": 32},
    "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "p100"}, "link": "10 Gbit/s", "hop": "1 us"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False},
    "num_iterations": 2,
}


@cache
def small(*settings: str) -> Sweep:
    """Return the small scenario with these settings, simulated."""
    from clustersim.scenario import load_scenario

    return sweep(load_scenario(SMALL, overrides=settings))


def compared(a: tuple[str, ...] = (), b: tuple[str, ...] = (), **options: Any) -> Difference:
    """Return the comparison of the small scenario with the settings of each."""
    return diff(small(*a), small(*b), **options)


def part(point: PointDifference, name: str) -> Any:
    """Return the change of one part."""
    return next(each for each in point.parts if each.part == name)


def only(result: Sweep) -> Run:
    """Return the only run of a sweep."""
    (run,) = result.runs
    return run
