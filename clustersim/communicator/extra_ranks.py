"""The ranks of a schedule that are not GPUs: a switch that adds, or the memories of the GPUs' hosts."""

from __future__ import annotations

import numpy as np

from clustersim.collectives import Schedule
from clustersim.topology import Node, Topology


def extra_ranks(schedule: Schedule, topology: Topology, gpus: np.ndarray) -> list[Node]:
    """Return the nodes of the ranks that follow those of the GPUs [num_ranks] in a schedule.

    These are the switch that adds, or the memory of each GPU's host, as many as there are GPUs.
    """
    num_extra = schedule.num_ranks - len(gpus)
    if not num_extra:
        return []
    if num_extra == len(gpus):
        return [Node(node) for node in topology.memory[gpus].tolist()]
    return [Node(node) for node in nodes_in_host(topology, int(topology.gpu_domains[gpus[0]]), "nvswitch")]


def nodes_in_host(topology: Topology, host: int, kind: str) -> list[int]:
    """Return the nodes of one kind in a host, or in an NVLink domain of several."""
    return [
        node for node in np.flatnonzero(topology.node_domains == host).tolist() if topology.node_kinds[node] == kind
    ]
