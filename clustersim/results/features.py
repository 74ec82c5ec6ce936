"""What distinguishes forecasts whose errors differ: the features that classes of forecasts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

FEW_HOSTS = 8
"""Largest number of hosts that counts as few."""

ANCHORED = "anchored"

ORIGINS = ("measured", "published", "estimated", ANCHORED)
"""Where a forecast's compute time is from: layer times that were measured, a published rate of one GPU, the shapes of
kernels, or a measured run of the same training."""


@dataclass(frozen=True)
class Features:
    """A forecast as its class sees it.

    `architecture` is that of the GPUs (`ampere`), and `program` the family of programs that train. `layout` says how
    the model is laid over GPUs (`layout_kind`), and `strategy` how gradients are exchanged. `origin` is one of
    `ORIGINS`, and `hosts` the class of `hosts_kind`. `work` is what has most of the model's FLOP: `convolutions`,
    `products` or `recurrent`.
    """

    architecture: str
    precision: str
    program: str
    strategy: str
    layout: str
    origin: str
    hosts: str
    work: str


FEATURES = frozenset(each.name for each in fields(Features))
"""The names of all features."""


def layout_kind(layout: Mapping[str, Any], sharding: str | None = None) -> str:
    """Return how a run's `layout` uses its GPUs: whole `copies`, states `sharded` over copies, layers `split` over
    GPUs, `stages` of layers, or a kind of its own.

    >>> layout_kind({}), layout_kind({"kind": "grid", "tensor": 8, "pipeline": 2}), layout_kind({"kind": "paths"})
    ('copies', 'stages', 'paths')
    >>> layout_kind({"kind": "grid", "data": 8}, sharding="zero-3")
    'sharded'
    """
    if layout.get("kind", "grid") != "grid":
        return str(layout["kind"])
    if layout.get("pipeline", 1) > 1:
        return "stages"
    if any(layout.get(axis, 1) > 1 for axis in ("tensor", "context", "expert")):
        return "split"
    return "sharded" if sharding else "copies"


def compute_origin(provenance: Mapping[str, float], kernels: str = "law") -> str:
    """Return the main provenance of a run's compute time: `measured`, `published` or `estimated`.

    Single kernels from measured tables (`kernels`) are `estimated`: the training that they are part of was not timed.

    >>> compute_origin({"measured": 0.2, "published": 0.5, "estimated": 0.3}), compute_origin({"estimated": 1.0})
    ('published', 'estimated')
    >>> compute_origin({"measured": 0.7, "estimated": 0.3}, "measured")
    'estimated'
    """
    measured, published = provenance.get("measured", 0.0), provenance.get("published", 0.0)
    from_tables = measured if kernels == "measured" else 0.0
    if provenance.get("estimated", 0.0) + from_tables > 0.5:
        return "estimated"
    return "measured" if measured - from_tables > published else "published"


def hosts_kind(num_hosts: int) -> str:
    """Return the class of a number of hosts: `one`, `few` (to FEW_HOSTS) or `many`.

    >>> hosts_kind(1), hosts_kind(8), hosts_kind(9)
    ('one', 'few', 'many')
    """
    return "one" if num_hosts == 1 else "few" if num_hosts <= FEW_HOSTS else "many"
