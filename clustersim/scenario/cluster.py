"""Builds the cluster of a point, once for each description."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from clustersim.topology import Topology, TopologySpec


def build_topology(spec: TopologySpec) -> Topology:
    """Return the cluster of a description; the same object for equal descriptions."""
    return _built(_Described(f"{type(spec).__name__} {spec.model_dump_json()}", spec))


@dataclass(frozen=True)
class _Described:
    """A hashable description: models that contain lists have no hash."""

    text: str
    spec: TopologySpec = field(compare=False)


@lru_cache(maxsize=8)
def _built(described: _Described) -> Topology:
    return described.spec.cluster()
