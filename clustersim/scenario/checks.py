"""Checks that need the cluster and the devices themselves: are there so many GPUs, can they do that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu
from clustersim.scenario.point import Point
from clustersim.scenario.straggler_checks import failure_mistakes, straggler_mistakes, trace_mistakes
from clustersim.scenario.tree import Place
from clustersim.topology import Topology, TopologySpec, place
from clustersim.workload import load_workload, read_profile
from clustersim.workload.precision import precision_on


def check_point(point: Point) -> list[Mistake]:
    """Return what is wrong with a point that is right by itself, each mistake with the key it is about."""
    return [*_compute_mistakes(point), *_cluster_mistakes(point)]


def build_topology(spec: TopologySpec) -> Topology:
    """Return the cluster that a point describes; the same one for the same description."""
    return _built(_Described(f"{type(spec).__name__} {spec.model_dump_json()}", spec))


@dataclass(frozen=True)
class _Described:
    """A description that can be looked up: models with lists in them have no hash of their own."""

    text: str
    spec: TopologySpec = field(compare=False)


@lru_cache(maxsize=8)
def _built(described: _Described) -> Topology:
    return described.spec.build()


def _compute_mistakes(point: Point) -> Iterator[Mistake]:
    yield from _mistakes_of("model", partial(load_workload, point.model))
    rate, profile = point.compute.single_gpu, point.compute.profile
    if rate is not None and rate.gpu is not None:
        yield from _mistakes_of("compute.single_gpu.gpu", partial(load_gpu, rate.gpu))
    if profile is not None:
        yield from _mistakes_of("compute.profile", partial(read_profile, profile))
    yield from trace_mistakes(point)


def _cluster_mistakes(point: Point) -> Iterator[Mistake]:
    wrong = list(_mistakes_of("topology", lambda: build_topology(point.topology)))
    if wrong:
        yield from wrong
        return
    topology = build_topology(point.topology)
    if point.num_gpus > topology.num_gpus:
        message = f"the cluster '{topology.name}' has {topology.num_gpus} GPUs (got {point.num_gpus})"
        yield Mistake(message, "num_gpus", got=str(point.num_gpus), allowed=f"at most {topology.num_gpus}")
        return
    wrong = list(_mistakes_of("placement", lambda: place(point.placement, topology, point.num_gpus, point.seed)))
    if wrong:
        yield from wrong
        return
    gpus = place(point.placement, topology, point.num_gpus, point.seed)
    yield from _gpu_mistakes(point, topology, gpus)
    yield from straggler_mistakes(point, topology, gpus)
    yield from failure_mistakes(point, topology)


def _gpu_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    names = dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist())
    if None in names:
        message = "which GPU does this cluster have? Give topology.gpu (`clustersim list` shows them)"
        yield Mistake(message, "topology", allowed="gpu, in the topology or its host")
    for name in filter(None, names):
        yield from _mistakes_of("precision", partial(precision_on, load_gpu(name), point.precision))


def _mistakes_of(key: str, attempt: Callable[[], object]) -> Iterator[Mistake]:
    """Yield what an attempt finds wrong: as it is where it names a line of another file, else about this key."""
    try:
        attempt()
    except InputError as error:
        for mistake in error.mistakes:
            yield Place().told(mistake, key)
