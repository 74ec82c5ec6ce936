"""A schedule with the costs of the protocol that NCCL chooses for it: latencies, bytes on the wire, waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clustersim.collectives.nccl import NcclRanks, NcclRates, nccl_tuning
from clustersim.collectives.nccl_time import (
    BETWEEN_US,
    INSIDE_US,
    NcclCost,
    nccl_cost,
    p2p_cost,
)
from clustersim.collectives.schedule import Relays, Schedule
from clustersim.topology import Topology

OF_ESTIMATE = {"ring": "ring", "double-tree": "tree", "nvls": "nvls"}
"""Algorithms for which NCCL has an estimate, with its name for them."""

_IN_CHANNELS = ("all-gather", "all-reduce", "broadcast", "reduce", "reduce-scatter")
_DIRECT = {"all-to-all": "linear", "gather": "linear", "scatter": "linear", "send-recv": "ring"}


def protocol_of(op: str, name: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> str | None:
    """Return the protocol of a collective in channels, or None for an algorithm that is not NCCL's."""
    if op not in _IN_CHANNELS or name not in OF_ESTIMATE or ranks.num_ranks == 1:
        return None
    return nccl_tuning(op, num_bytes, ranks, rates, OF_ESTIMATE[name]).protocol


def is_of_nccl(op: str, name: str) -> bool:
    """Say whether an algorithm is one that NCCL has for a collective.

    >>> is_of_nccl("all-reduce", "ring"), is_of_nccl("all-reduce", "doubling")
    (True, False)
    """
    return (op in _IN_CHANNELS and name in OF_ESTIMATE) or _DIRECT.get(op) == name


def tuned(
    schedule: Schedule, op: str, name: str, topology: Topology, gpus: np.ndarray, num_bytes: float, rates: NcclRates
) -> Schedule:
    """Return a schedule of `num_bytes` among GPUs [num_ranks] with the costs of NCCL's protocol.

    Its hops wait for their share of the transport's overheads, which are the latencies of Simple. A schedule without
    steps stays as it is.
    """
    num_ranks = len(gpus)
    ranks = ranks_of(topology, gpus)
    if num_ranks == 1 or not schedule.num_steps:
        return schedule
    if op in _IN_CHANNELS and name in OF_ESTIMATE:
        chosen = nccl_tuning(op, num_bytes, ranks, rates, OF_ESTIMATE[name])
        cost = nccl_cost(op, chosen, num_bytes, ranks, rates)
        relays = Relays.of([], [], []) if schedule.relays is None else schedule.relays
    else:
        part = num_bytes if op == "send-recv" else num_bytes / num_ranks
        own, peers = (part, num_ranks - 1) if op == "all-to-all" else (0.0, 1 if op == "send-recv" else num_ranks - 1)
        cost = p2p_cost(peers, part, own, ranks, rates)
        relays = _slowest_hop(schedule, topology, gpus)
    relays = relays._replace(times=relays.times * cost.plateau, shares=_shares(relays, topology, gpus, cost))
    return replace(schedule.on_wire(cost.wire_factor), relays=relays, wait_s=cost.wait_s)


def _shares(relays: Relays, topology: Topology, gpus: np.ndarray, cost: NcclCost) -> np.ndarray:
    """Return each hop's share of the overhead of a message within a host, or between hosts [num_hops]."""
    hosts = topology.gpu_domains[gpus]
    inside = (hosts[relays.src] == hosts[relays.dst]) & (hosts[relays.src] >= 0)
    return np.where(inside, cost.inside_us / INSIDE_US, cost.between_us / BETWEEN_US)


def _slowest_hop(schedule: Schedule, topology: Topology, gpus: np.ndarray) -> Relays:
    """Return one hop of a schedule of one step: between hosts if there is one."""
    columns, hosts = schedule.step(0), topology.gpu_domains[gpus]
    leaves = (hosts[columns.src] != hosts[columns.dst]) | (hosts[columns.src] < 0)
    first = int(leaves.argmax())
    return Relays.of(columns.src[[first]], columns.dst[[first]])


def ranks_of(topology: Topology, gpus: np.ndarray) -> NcclRanks:
    """Return the number of GPUs [num_ranks] and of their hosts; one without a host is by itself."""
    hosts = topology.gpu_domains[gpus]
    return NcclRanks(len(gpus), len(np.unique(hosts[hosts >= 0])) + int((hosts < 0).sum()))
