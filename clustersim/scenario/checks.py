"""Checks that need the cluster and the devices themselves: are there so many GPUs, can they do that."""

from __future__ import annotations

from functools import lru_cache

from clustersim.errors import InputError, Mistake
from clustersim.scenario.point import Point
from clustersim.topology import Topology, TopologySpec


def check_point(point: Point) -> list[Mistake]:
    """Return what is wrong with a point that is right by itself, each mistake with the key it is about."""
    try:
        topology = build_topology(point.topology)
    except InputError as error:
        return [_under("topology", mistake) for mistake in error.mistakes]
    if point.num_gpus > topology.num_gpus:
        message = f"the cluster has {topology.num_gpus} GPUs (got {point.num_gpus})"
        return [Mistake(message, key="num_gpus", got=str(point.num_gpus), allowed=f"at most {topology.num_gpus}")]
    return []


def build_topology(spec: TopologySpec) -> Topology:
    """Return the cluster that a point describes; the same one for the same description."""
    return _built(type(spec), spec.model_dump_json(exclude_none=True, by_alias=True))


@lru_cache(maxsize=8)
def _built(kind: type[TopologySpec], text: str) -> Topology:
    return kind.model_validate_json(text).build()


def _under(key: str, mistake: Mistake) -> Mistake:
    return Mistake(mistake.message, key, got=mistake.got, allowed=mistake.allowed)
