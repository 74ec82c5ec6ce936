"""Checks that need the cluster and the devices themselves: are there so many GPUs, can they do that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu
from clustersim.reading.tree import Place
from clustersim.scenario.point import JobOfMany, Point
from clustersim.scenario.straggler_checks import failure_mistakes, straggler_mistakes, trace_mistakes
from clustersim.stragglers import LinkStraggler
from clustersim.topology import Topology, TopologySpec, place
from clustersim.workload import load_workload, read_profile
from clustersim.workload.precision import precision_on


def check_point(point: Point) -> list[Mistake]:
    """Return what is wrong with a point that is right by itself, each mistake with the key it is about."""
    alone = [*_compute_mistakes(point), *_cluster_mistakes(point)]
    return [*alone, *_job_mistakes(point, are_placed=not alone)]


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
    return described.spec.cluster()


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


def _job_mistakes(point: Point, are_placed: bool) -> Iterator[Mistake]:
    """Yield what is wrong with the jobs of a cluster, with keys as seen from the scenario."""
    jobs = point.each_job()
    for number, (_, job, _) in enumerate(jobs):
        if job is not point:
            found = [*_compute_mistakes(job), *_link_mistakes(job, jobs[0].point)]
            yield from (each if each.line else replace(each, key=f"jobs.{number}.{each.key}") for each in found)
    if are_placed and len(jobs) > 1:
        yield from _place_mistakes(point, jobs)


def _place_mistakes(point: Point, jobs: Sequence[JobOfMany]) -> Iterator[Mistake]:
    """Yield why the first job that finds no place finds none, or who of the others cannot work where it is."""
    topology, taken = build_topology(point.topology), np.zeros(0, dtype=np.int64)
    for number, (name, job, _) in enumerate(jobs):
        key = "jobs" if job is point else f"jobs.{number}"
        try:
            gpus = place(job.placement, topology, job.num_gpus, point.seed, taken)
        except InputError as error:
            yield from (replace(each, message=f"{name}: {each.message}", key=key) for each in error.mistakes)
            return
        taken = np.concatenate([taken, gpus])
        found = [*_gpu_mistakes(job, topology, gpus), *straggler_mistakes(job, topology, gpus)]
        yield from (replace(each, key=key if job is point else f"{key}.{each.key}") for each in found)


def _link_mistakes(job: Point, first: Point) -> Iterator[Mistake]:
    """Yield whether a job has trouble on links that is not that of the first job, whose it has to be."""
    own, firsts = ([each for each in point.stragglers if isinstance(each, LinkStraggler)] for point in (job, first))
    if own and own != firsts:
        message = "all jobs share the links, whose trouble only the scenario or its first job can tell"
        yield Mistake(message, "stragglers", got=own[0].kind, allowed="stragglers of GPUs and hosts")


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
