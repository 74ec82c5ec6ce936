"""Error budget: errors of validated forecasts, and the ones similar to a given training.

Only errors of training speed count, not those of its parts or of its staleness. `clustersim validate --budget` writes
`budget.json`, which is read without any simulation. It has the error of every scored point with its kind of training,
so that a forecast can quote the errors of similar ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from math import log2
from pathlib import PurePath
from statistics import median
from typing import Any

BUDGET_SCHEMA = "clustersim.budget/1"

NUM_NEAREST = 12
"""Number of points that a statement is based on, where there are as many."""

MAX_DISTANCE = 2.0
"""Maximum distance of a similar point: a different strategy alone is within it, a different layout never is."""

MIN_POINTS = 4
"""Minimum number of points for a statement."""


@dataclass(frozen=True)
class Kind:
    """Kind of training of a point: strategy, transport, number of GPUs and of their hosts, and model.

    `layout` is that of `layout_kind`. `compute` is `given` if layer times were measured or follow a published rate, or
    `estimated` from kernel shapes.
    """

    strategy: str
    transport: str
    num_gpus: int
    num_hosts: int
    model: str
    layout: str = "copies"
    compute: str = "given"

    def differences(self, other: Kind) -> dict[str, float]:
        """Return the differences between two trainings, each with its weight.

        2 for another strategy, 3 for another layout, 1 for another transport, 1 for one host against several, 1 for
        another model, 1 for layer times of another origin, and half of the powers of two between the numbers of GPUs.
        The weights are a judgement, not a fit.
        """
        counted = {
            "strategy": 2.0 * (self.strategy != other.strategy),
            "layout": 3.0 * (self.layout != other.layout),
            "transport": 1.0 * (self.transport != other.transport),
            "one host against several": 1.0 * ((self.num_hosts > 1) != (other.num_hosts > 1)),
            "model": 1.0 * (self.model != other.model),
            "origin of the layer times": 1.0 * (self.compute != other.compute),
            "number of GPUs": 0.5 * abs(log2(self.num_gpus / other.num_gpus)),
        }
        return {what: weight for what, weight in counted.items() if weight}

    def distance(self, other: Kind) -> float:
        """Return the distance of two trainings: 0 for the same kind, about 1 for one relevant difference."""
        return sum(self.differences(other).values())


def model_kind(model: Any) -> str:
    """Return the name of a model of the catalogue or of a file.

    >>> model_kind("squeezenet-1.0"), model_kind("nets/my-net.workload.yaml"), model_kind("net.yml")
    ('squeezenet-1.0', 'my-net', 'net')
    """
    name = PurePath(str(model)).name
    for ending in (".yaml", ".yml"):
        if name.endswith(ending):
            name = name.removesuffix(ending).removesuffix(".workload")
    return name


def layout_kind(layout: Mapping[str, Any]) -> str:
    """Return how a run's `layout` uses its GPUs: whole `copies`, layers `split`, `stages`, or a kind of its own.

    >>> layout_kind({}), layout_kind({"kind": "grid", "tensor": 8, "pipeline": 2}), layout_kind({"kind": "paths"})
    ('copies', 'stages', 'paths')
    """
    if layout.get("kind", "grid") != "grid":
        return str(layout["kind"])
    if layout.get("pipeline", 1) > 1:
        return "stages"
    return "split" if any(layout.get(axis, 1) > 1 for axis in ("tensor", "context", "expert")) else "copies"


def compute_kind(provenance: Mapping[str, float], kernels: str = "law") -> str:
    """Return the main provenance of a run's compute time: `given` or `estimated`.

    Single kernels from measured tables (`kernels`) are `estimated`: the training that they are part of was not timed.

    >>> compute_kind({"measured": 0.2, "published": 0.5, "estimated": 0.3}), compute_kind({"estimated": 1.0})
    ('given', 'estimated')
    >>> compute_kind({"measured": 0.7, "estimated": 0.3}, "measured")
    'estimated'
    """
    from_tables = provenance.get("measured", 0.0) if kernels == "measured" else 0.0
    return "estimated" if provenance.get("estimated", 0.0) + from_tables > 0.5 else "given"


@dataclass(frozen=True)
class BudgetPoint:
    """Error of one scored point, simulated / measured - 1, and its case."""

    case: str
    kind: Kind
    error: float


@dataclass(frozen=True)
class KnownError:
    """Absolute errors of the nearest validated forecasts, over `num_points` points of `cases`."""

    median: float
    p90: float
    num_points: int
    cases: tuple[str, ...]


def known_error(kind: Kind, points: Sequence[BudgetPoint] | None = None) -> KnownError | None:
    """Return the errors of the points nearest to a kind of training; None with fewer than MIN_POINTS in range.

    `points` default to the shipped budget. The nearest NUM_NEAREST within MAX_DISTANCE count. Points at the same
    distance all count, so that the order of the file does not matter.
    """
    known = shipped_budget() if points is None else points
    by_distance = sorted((kind.distance(point.kind), point.case, point.error) for point in known)
    near = [found for found in by_distance if found[0] <= MAX_DISTANCE]
    if len(near) < MIN_POINTS:
        return None
    reach = near[min(NUM_NEAREST, len(near)) - 1][0]
    chosen = [found for found in near if found[0] <= reach]
    sizes = sorted(abs(error) for _, _, error in chosen)
    ninetieth = sizes[max(0, -(-9 * len(sizes) // 10) - 1)]
    return KnownError(median(sizes), ninetieth, len(sizes), tuple(dict.fromkeys(case for _, case, _ in chosen)))


def nearest_case(kind: Kind, points: Sequence[BudgetPoint] | None = None) -> tuple[str, tuple[str, ...]] | None:
    """Return the case nearest to a kind of training at any distance, and its differences; None without cases."""
    known = shipped_budget() if points is None else points
    if not known:
        return None
    nearest = min(known, key=lambda point: (kind.distance(point.kind), point.case))
    return nearest.case, tuple(kind.differences(nearest.kind))


@cache
def shipped_budget() -> tuple[BudgetPoint, ...]:
    """Return every scored point of the shipped cases."""
    return read_budget(json.loads(files("clustersim.results").joinpath("budget.json").read_text(encoding="utf-8")))


def read_budget(document: Mapping[str, Any]) -> tuple[BudgetPoint, ...]:
    """Return the points of a `clustersim.budget/1` document."""
    assert document["schema"] == BUDGET_SCHEMA, document["schema"]
    return tuple(BudgetPoint(row["case"], Kind(**row["kind"]), row["error"]) for row in document["points"])


def budget_document(version: str, points: Sequence[BudgetPoint]) -> dict[str, Any]:
    """Return the `clustersim.budget/1` document of these points; errors to four digits."""
    rows = [{"case": each.case, "kind": asdict(each.kind), "error": round(each.error, 4)} for each in points]
    return {"schema": BUDGET_SCHEMA, "version": version, "points": rows}
