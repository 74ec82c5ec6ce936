"""The ranks that a schedule has beyond those of its GPUs: a switch that adds, or the memories of the GPUs' hosts."""

from __future__ import annotations

import numpy as np

from clustersim.collectives import Schedule
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.topology import Node, Topology


def further_ranks(schedule: Schedule, topology: Topology, gpus: np.ndarray) -> list[Node]:
    """Return the nodes of the ranks that a schedule has beyond those of the GPUs [num_ranks].

    That is one for the switch that adds, or as many as there are GPUs, the memory of each one's host.
    """
    num_further = schedule.num_ranks - len(gpus)
    if not num_further:
        return []
    if num_further == len(gpus):
        return [Node(node) for node in topology.memory[gpus].tolist()]
    return [Node(node) for node in nodes_in_host(topology, int(topology.gpu_hosts[gpus[0]]), "nvswitch")]


def pauses_s(schedule: Schedule, topology: Topology, gpus: np.ndarray, transport: str) -> np.ndarray | None:
    """Return how long each rank pauses before each step [num_ranks, num_steps], or nothing where none does.

    What is added in host memory takes a core's time there, or its share of the memory's rate where ranks beside it add
    as well, before its rank goes on: a transport among GPUs, whose own adding hides behind the wire, knows of none.
    With `ideal` adding is free.
    """
    num_gpus = len(gpus)
    if schedule.num_ranks != 2 * num_gpus or num_gpus < 2 or transport == "ideal":
        return None
    s_per_byte = np.array([BYTES_MOVED_PER_ADDED / rate for rate in _adding_rates(topology, topology.memory[gpus])])
    delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
    for number in range(schedule.num_steps - 1):
        step = schedule.step(number)
        added = step.reduce & (step.dst >= num_gpus)
        dst = step.dst[added]
        added_s = step.num_bytes[added] * s_per_byte[dst - num_gpus]
        delay_s[:, number + 1] += np.bincount(dst, added_s, schedule.num_ranks)
    return delay_s


def nodes_in_host(topology: Topology, host: int, kind: str) -> list[int]:
    """Return the nodes of one kind in a host."""
    return [node for node in np.flatnonzero(topology.node_hosts == host).tolist() if topology.node_kinds[node] == kind]


def _adding_rates(topology: Topology, memories: np.ndarray) -> list[float]:
    """Return at which rate each rank's memory is read and written by who adds there, all at once [num_ranks]."""
    nodes, place, num_there = np.unique(memories, return_inverse=True, return_counts=True)
    rates = []
    for node, num in zip(nodes.tolist(), num_there.tolist(), strict=True):
        adder, core = topology.adders.get(node), topology.core_bytes_per_s(node)
        shared = np.inf if adder is None else float(topology.links.bytes_per_s[adder]) / num
        rates.append(shared if core is None else min(shared, core))
    return [rates[at] for at in place.tolist()]
