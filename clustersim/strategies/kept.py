"""Schedules that have been made, for as long as their cluster is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives import Schedule
from clustersim.topology import Topology

_MOST = 64  # of a cluster that are kept; the oldest go first

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
