"""Which algorithm a collective runs on a cluster, and with which options of its own."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from clustersim.collectives import COLLECTIVES, Schedule, choose, options_of
from clustersim.errors import InputError
from clustersim.topology import Topology


def schedule_collective(
    op: str,
    algorithm: str,
    topology: Topology,
    gpus: np.ndarray,
    num_bytes: float,
    transport: str,
    dims: tuple[int, ...] | None = None,
) -> tuple[str, Schedule]:
    """Return the name and the schedule of a collective among GPUs [num_ranks] of a cluster.

    `auto` is what the transport's own library would choose. Algorithms that go host by host learn which
    ranks share a host, and those that go along a torus its dimensions, or `dims` where given.
    """
    groups = by_host(topology.gpu_hosts[gpus])
    name = algorithm
    if algorithm == "auto":
        largest = max(map(len, groups), default=1)
        name = choose(op, transport, len(gpus), num_bytes, largest, _bytes_per_s_between(topology, gpus, groups))
    member = COLLECTIVES[op][name]
    known: dict[str, Any] = {"groups": groups}
    if "dims" in options_of(member):
        known["dims"] = _dims(topology, len(gpus), dims)
    return name, member(len(gpus), num_bytes, **{key: known[key] for key in known if key in options_of(member)})


def check_algorithm(
    op: str, algorithm: str, topology: Topology, gpus: np.ndarray, dims: tuple[int, ...] | None = None
) -> None:
    """Refuse an algorithm that cannot be run among these GPUs [num_ranks] of a cluster, before any schedule is made."""
    if algorithm != "auto" and "dims" in options_of(COLLECTIVES[op][algorithm]):
        _dims(topology, len(gpus), dims)


def by_host(hosts: np.ndarray) -> list[list[int]]:
    """Return the ranks of each host, hosts in the order of their first rank; `hosts` [num_ranks].

    >>> by_host(np.array([7, 3, 7]))
    [[0, 2], [1]]
    """
    ranks: dict[int, list[int]] = {}
    for rank, host in enumerate(hosts.tolist()):
        ranks.setdefault(host, []).append(rank)
    return list(ranks.values())


def _bytes_per_s_between(topology: Topology, gpus: np.ndarray, groups: list[list[int]]) -> float:
    """Return the rate of the way from the first host's first rank to the second host's, or inside the one host."""
    ends = [groups[0][0], groups[1][0]] if len(groups) > 1 else groups[0][:2]
    nodes = [int(topology.gpus[gpus[rank]]) for rank in ends]
    route = topology.route(nodes[0], nodes[-1])
    return float(topology.links.bytes_per_s[route].min(initial=1e15))


def _dims(topology: Topology, num_ranks: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
    dims = given or topology.torus_dims
    if dims is None or prod(dims) != num_ranks:
        shown = "none" if dims is None else " x ".join(map(str, dims))
        raise InputError(
            f"rings along a torus need the ranks along each dimension, whose product is {num_ranks} (got {shown}); "
            "in a scenario they are strategy.dims",
            got=shown,
            allowed=f"dims whose product is {num_ranks}",
            key="algorithm" if given is None else "dims",
        )
    return dims
