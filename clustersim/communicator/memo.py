"""Schedules that have been made, and what GPUs are to each other, for as long as their cluster is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives import Schedule
from clustersim.topology import Topology

_MOST = 64  # schedules of a cluster that are kept; the oldest go first
_MOST_GROUPS = 4096  # of GPUs, of which something is kept

Dims = tuple[int, ...] | None
Scheduling = Callable[[str, str, Topology, np.ndarray, float, str, Dims], tuple[str, Schedule]]


def kept(make: Scheduling) -> Callable[..., tuple[str, Schedule]]:
    """Return what makes a schedule only once for the same arguments, of which the GPUs are [num_ranks].

    So what a network has worked out for a schedule serves all iterations and replicates.
    """
    known: WeakKeyDictionary[Topology, dict[Hashable, tuple[str, Schedule]]] = WeakKeyDictionary()

    @wraps(make)
    def find(
        op: str,
        algorithm: str,
        topology: Topology,
        gpus: np.ndarray,
        num_bytes: float,
        transport: str,
        dims: Dims = None,
    ) -> tuple[str, Schedule]:
        here = known.setdefault(topology, {})
        key = op, algorithm, gpus.tobytes(), num_bytes, transport, dims
        if key not in here:
            here[key] = make(op, algorithm, topology, gpus, num_bytes, transport, dims)
            if len(here) > _MOST:
                del here[next(iter(here))]
        return here[key]

    return find


Fact = TypeVar("Fact")


def known_of_gpus(find: Callable[[Topology, np.ndarray], Fact]) -> Callable[[Topology, np.ndarray], Fact]:
    """Return what finds something out about GPUs [num_ranks] of a cluster only once."""
    known: WeakKeyDictionary[Topology, dict[bytes, Fact]] = WeakKeyDictionary()

    @wraps(find)
    def look(topology: Topology, gpus: np.ndarray) -> Fact:
        here, key = known.setdefault(topology, {}), gpus.tobytes()
        if key not in here:
            here[key] = find(topology, gpus)
            if len(here) > _MOST_GROUPS:
                del here[next(iter(here))]
        return here[key]

    return look
