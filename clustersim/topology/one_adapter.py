"""Clusters in which what a library's channels carry leaves and enters a host by one adapter a socket."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.topology.topology import Topology

_KNOWN: WeakKeyDictionary[Topology, Topology] = WeakKeyDictionary()


def one_adapter_a_socket(topology: Topology) -> Topology:
    """Return a cluster whose channels go, between hosts, by the adapter that is near the first GPU of their socket.

    That is how NCCL goes out of hosts whose adapters all tell it the same GUID of a system: it takes them for one card
    (`net.asic` in src/graph/search.cc and topo.cc), finds one channel, and every group of GPUs finds the same one.
    Messages from one GPU to another go by the adapter near each, as ever. Inside the host the way of the socket's first
    GPU stands for the others'.
    """
    if topology not in _KNOWN:
        first_of = np.arange(len(topology.node_kinds))
        _, first, socket = np.unique(topology.memory, return_index=True, return_inverse=True)
        first_of[topology.gpus] = topology.gpus[first][socket]
        _KNOWN[topology] = replace(topology, first_of_socket=first_of)
    return _KNOWN[topology]
