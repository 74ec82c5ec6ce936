"""The resources that a run uses: those of its GPUs and hosts, its links by class, its message library and its input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clustersim.hardware.speeds import (
    GPU_FLOP,
    GPU_KERNELS,
    GPU_MEMORY,
    HOST,
    HOST_MEMORY,
    INPUT,
    LATENCY,
    LIBRARY,
    LINK,
    MEMORY_KINDS,
)
from clustersim.model.layer import NO_HOST
from clustersim.results import Run
from clustersim.simulate.setup import Setup
from clustersim.topology.processes import KIND


class Resource(NamedTuple):
    """A resource by the name that `Speeds` has for it; `idle` says why it cannot matter, empty where it may."""

    name: str
    title: str
    idle: str = ""


def resources_of(setup: Setup, run: Run) -> tuple[Resource, ...]:
    """Return the resources of a point, given its forecast.

    A resource cannot matter if nothing of the run takes any of its time, and if nothing chooses by its rate: NCCL
    chooses channels and algorithms by the rates of links, also of those that carry nothing in the end.
    """
    return tuple(_found(setup, run))


def _found(setup: Setup, run: Run) -> Iterator[Resource]:
    point, used = setup.point, {each.kind for each in run.link_classes if each.num_used}
    chooses = point.num_gpus > 1 and setup.transport.library.startswith("nccl")
    offloads = point.parallelism.offload != "none"
    unused = "" if used or chooses or offloads else "no message is sent"
    yield Resource(GPU_FLOP, f"FLOP rate of the GPU ({point.precision})")
    yield Resource(GPU_MEMORY, "memory rate of the GPU")
    yield Resource(GPU_KERNELS, "overhead of kernels (launches)")
    yield Resource(HOST, "host that issues kernels", "" if _has_host(setup) else "no host is simulated")
    in_memory = any(MEMORY_KINDS.get(kind) == HOST_MEMORY for kind in used)
    may_matter = in_memory or chooses or offloads
    yield Resource(HOST_MEMORY, "memory rate of the host", "" if may_matter else "nothing is copied or added there")
    for links in run.link_classes:
        if links.kind in MEMORY_KINDS or links.kind.startswith(KIND):
            continue
        idle = "" if links.num_used or chooses or offloads else "they carry nothing"
        yield Resource(f"{LINK}{links.kind}", f"rate of {links.kind} links", idle)
    yield Resource(LATENCY, "latency of links", unused)
    yield Resource(LIBRARY, f"message library ({point.transport})", unused)
    if point.input is not None:
        yield Resource(INPUT, "input (decoding, storage)")


def _has_host(setup: Setup) -> bool:
    """Return whether the time of a process that issues kernels is part of an iteration."""
    if setup.point.optimizer.issue is not None or setup.point.compute.launch == "blocking":
        return True
    works = [setup.workload(kind) for kind in setup.kinds_in_use]
    return any(work.host != NO_HOST or any(each.forward_issue.host_s for each in work.layers) for work in works)
