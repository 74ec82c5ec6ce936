"""Which algorithm a collective runs on a cluster, and with which options of its own."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from clustersim.collectives import IN_SWITCH, Schedule, algorithms_of, choose, options_of
from clustersim.errors import InputError
from clustersim.hardware import load_gpu, load_transport
from clustersim.strategies.kept import kept
from clustersim.topology import Node, Topology
from clustersim.topology.channels import channels

NCCL = ("nccl", "nccl-sockets")
"""Transports whose rings and trees are several at once, one for each way out of a host."""

ADDING_SWITCHES = ("hopper", "blackwell")
"""GPUs whose NVSwitches add: the third generation and later (NVIDIA, H100 architecture whitepaper, 2022)."""


@kept
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
    ranks share a host, and those that go along a torus its dimensions, or `dims` where given. With NCCL, rings and
    double trees are as many as there are channels (`clustersim.topology.channels`). Ranks that the schedule has
    beyond those of the GPUs are the nodes that `switches` gives.
    """
    check_algorithm(op, algorithm, topology, gpus, transport, dims)
    groups = by_host(topology.gpu_hosts[gpus])
    name = algorithm
    if algorithm == "auto":
        largest = max(map(len, groups), default=1)
        name = choose(op, transport, len(gpus), num_bytes, largest, _bytes_per_s_between(topology, gpus, groups))
    member = algorithms_of(op)[name]
    known: dict[str, Any] = {"groups": groups}
    if "dims" in options_of(member):
        known["dims"] = _dims(topology, len(gpus), dims)
    if transport in NCCL and len(gpus) > 1:
        known |= _channels(topology, gpus)
    return name, member(len(gpus), num_bytes, **{key: known[key] for key in known if key in options_of(member)})


def _channels(topology: Topology, gpus: np.ndarray) -> dict[str, Any]:
    """Return NCCL's `rings` and `chains`; one ring in the order of ranks need not be given."""
    found = channels(topology, gpus)
    rings = found.rings()
    if len(rings) == 1 and np.array_equal(rings[0], np.arange(len(gpus))):
        return {"chains": found.paths}
    return {"rings": rings, "chains": found.paths}


def check_algorithm(
    op: str,
    algorithm: str,
    topology: Topology,
    gpus: np.ndarray,
    transport: str,
    dims: tuple[int, ...] | None = None,
) -> None:
    """Refuse an algorithm that cannot be run among these GPUs [num_ranks] of a cluster, before any schedule is made."""
    if algorithm == "auto":
        return
    if "dims" in options_of(algorithms_of(op)[algorithm]):
        _dims(topology, len(gpus), dims)
    if len(gpus) > 1 and op in IN_SWITCH and algorithm in IN_SWITCH[op]:
        _adding_switch(algorithm, topology, gpus, transport)


def switches(schedule: Schedule, topology: Topology, gpus: np.ndarray) -> list[Node]:
    """Return the nodes of the ranks that a schedule has beyond those of the GPUs [num_ranks]: the switch that adds."""
    if schedule.num_ranks == len(gpus):
        return []
    return [Node(node) for node in _nodes(topology, int(topology.gpu_hosts[gpus[0]]), "nvswitch")]


def _adding_switch(algorithm: str, topology: Topology, gpus: np.ndarray, transport: str) -> None:
    """Refuse to add in a switch where there is none between all of these GPUs that can."""
    hosts = np.unique(topology.gpu_hosts[gpus]).tolist()
    sheets = list(dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist()))
    old = [name for name in sheets if name is None or load_gpu(name).architecture not in ADDING_SWITCHES]
    reason = got = None
    if len(hosts) > 1:
        reason, got = (
            f"the {len(gpus)} GPUs are on {len(hosts)} hosts, and the switch is in one",
            f"{len(hosts)} hosts",
        )
    elif not _nodes(topology, hosts[0], "nvswitch"):
        reason, got = f"the hosts of '{topology.name}' have no NVSwitch", "no NVSwitch"
    elif old:
        reason, got = f"the NVSwitches of {old[0] or 'a GPU without a sheet'} do not add", str(old[0])
    elif load_transport(transport).buffers == "host":
        reason, got = f"the transport {transport} has its messages in host memory, and not in the GPUs'", transport
    if reason is not None:
        allowed = "GPUs of one host with NVSwitch, Hopper or newer, as in dgx-h100"
        message = f"{algorithm} adds in the switch between the GPUs of a host: {reason}; take {allowed}, or another one"
        raise InputError(message, got=got, allowed=allowed, key="algorithm")


def _nodes(topology: Topology, host: int, kind: str) -> list[int]:
    """Return the nodes of one kind in a host."""
    return [node for node in np.flatnonzero(topology.node_hosts == host).tolist() if topology.node_kinds[node] == kind]


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
