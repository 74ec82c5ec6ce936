"""Chooses the algorithm of a collective on a cluster, with its options, and makes its schedule."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from clustersim.collectives import IN_HOST_MEMORY, IN_SWITCH, Schedule, algorithms_of, choose, options_of
from clustersim.collectives.chain import LINES_BYTES, PIECE_BYTES
from clustersim.collectives.horovod import HOROVOD
from clustersim.collectives.nccl import FEWEST_FOR_NVLS, NVLS_EFFICIENCY, ROUND_RINGS, NcclRates, ring_plateau
from clustersim.collectives.nccl_1 import OF_NCCL_1, nccl_1_ring
from clustersim.collectives.nccl_2_4 import NCCL_2_4, nccl_2_4_choice
from clustersim.collectives.nccl_channels import compute_capability, found_channels, nccl_channels
from clustersim.collectives.open_mpi import OPEN_MPI_4_0, OPEN_MPI_4_1, open_mpi_4_1_choice, open_mpi_choice
from clustersim.communicator.extra_ranks import nodes_in_host
from clustersim.communicator.memo import cached_by_topology
from clustersim.communicator.tuned import is_of_nccl, protocol_of, ranks_of, tuned
from clustersim.errors import InputError
from clustersim.hardware import load_gpu, load_transport
from clustersim.topology import Topology
from clustersim.topology.adapters import one_adapter_per_socket
from clustersim.topology.channels import Channels, channels

_OPEN_MPI = {OPEN_MPI_4_0: open_mpi_choice, OPEN_MPI_4_1: open_mpi_4_1_choice}

CHOICES = ("auto", *OF_NCCL_1, NCCL_2_4, *_OPEN_MPI)
"""Names that are no algorithms: each chooses an algorithm by the size of the message."""

NCCL = ("nccl", "nccl-sockets", "nccl-omni-path")
"""Transports with several rings and trees at once, one for each way out of a host, except for `ONE_WAY`."""

ONE_WAY = "nccl-omni-path"
"""NCCL on Omni-Path, where it takes all adapters for one: it has one channel, on an adapter that others use too."""

_TRANSPORTS_OF_CHOICE = dict.fromkeys((*OF_NCCL_1, NCCL_2_4), ("NCCL", NCCL)) | dict.fromkeys(
    _OPEN_MPI, ("Open MPI", ("ideal", "mpi", "mpi-adapter", "mpi-cuda", "tcp"))
)
"""The library of each choice, and its transports."""

_MAX_SCHEDULES = 64
"""Schedules that are cached for a cluster. What a network works out for one serves all iterations and replicates."""

_MAX_GROUPS = 4096
"""Groups of GPUs for which channels and rates are cached, for each cluster."""


@cached_by_topology(_MAX_SCHEDULES)
def schedule_collective(
    op: str,
    algorithm: str,
    topology: Topology,
    gpus: np.ndarray,
    num_bytes: float,
    transport: str,
    dims: tuple[int, ...] | None = None,
) -> tuple[str, Schedule]:
    """Return the name and the schedule of a collective of `num_bytes` bytes among GPUs [num_ranks] of a cluster.

    The algorithm `auto` is what the transport's own library would choose, `nccl-1` what NCCL did until 2017,
    `nccl-1-processes` the same with a process for each GPU, `nccl-2.4` what it did in 2019, `open-mpi-4.0` what Open
    MPI did until 2020, `open-mpi-4.1` what it did then. Algorithms that go host by host get the ranks of each host.
    Those that go along a torus get its dimensions, or `dims` where given. With NCCL there are as many rings and double
    trees as channels (`clustersim.topology.channels`). In a chain that all channels of one host share, a piece of each
    channel moves at a time (`clustersim.collectives.chain`).

    Ranks of the schedule beyond those of the GPUs are the nodes that `extra_ranks` returns. Pauses of ranks are those
    of `pauses_s`. Raise InputError where the algorithm cannot run there.
    """
    check_algorithm(op, algorithm, topology, gpus, transport, dims)
    groups = by_host(topology.gpu_domains[gpus])
    name = algorithm_name(op, algorithm, topology, gpus, num_bytes, transport)
    make_schedule = algorithms_of(op)[name]
    options: dict[str, Any] = {"groups": groups}
    if "dims" in options_of(make_schedule):
        options["dims"] = _dims(topology, len(gpus), dims)
    if transport in NCCL and len(gpus) > 1:
        if algorithm in OF_NCCL_1:
            options |= {"rings": nccl_1_ring(gpus)[None]}
        else:
            found = _channels(topology, gpus, transport)
            options |= {"rings": found.rings(), "chains": found.paths}
            protocol = None
            if is_tuned(transport, algorithm) and is_of_nccl(op, name):
                ranks = ranks_of(topology, gpus)
                protocol = protocol_of(op, name, num_bytes, ranks, nccl_rates(topology, gpus, transport))
            if protocol in ("LL", "LL128"):
                options |= {"piece_bytes": LINES_BYTES, "lines": True}
            elif len(found.paths) == len(groups) == 1 and name != "double-tree":
                options["piece_bytes"] = PIECE_BYTES * num_channels(topology, gpus, transport)
    accepted = options_of(make_schedule)
    schedule = make_schedule(len(gpus), num_bytes, **{key: options[key] for key in options if key in accepted})
    if is_tuned(transport, algorithm):
        direct_apart = transport == ONE_WAY and schedule.relays is None  # by the adapter near each GPU, not a channel's
        if not is_of_nccl(op, name) or len(gpus) < 2 or direct_apart:
            return name, schedule
        return name, tuned(schedule, op, name, topology, gpus, num_bytes, nccl_rates(topology, gpus, transport))
    if schedule.relays is not None and op in ROUND_RINGS and name == "ring" and len(groups) > 1:
        plateau = ring_plateau(*_architectures(topology, gpus))
        schedule = replace(schedule, relays=schedule.relays._replace(times=schedule.relays.times * plateau))
    return name, schedule


def is_tuned(transport: str, algorithm: str) -> bool:
    """Say whether a collective costs what NCCL's choice of a protocol does: not with versions before protocols."""
    return transport in NCCL and algorithm not in (*OF_NCCL_1, NCCL_2_4)


def algorithm_name(
    op: str, algorithm: str, topology: Topology, gpus: np.ndarray, num_bytes: float, transport: str
) -> str:
    """Return the name of the algorithm that a collective runs: for `auto`, what the transport's library would choose.

    `gpus` is [num_ranks], and `num_bytes` the size of the buffer.
    """
    if algorithm not in (*CHOICES, HOROVOD):
        return algorithm
    if algorithm in _OPEN_MPI and op == "all-reduce":
        return _OPEN_MPI[algorithm](num_bytes, len(gpus))
    if algorithm in OF_NCCL_1 and "ring" in algorithms_of(op):
        return "ring"
    groups = by_host(topology.gpu_domains[gpus])
    if algorithm == HOROVOD:
        return "ring" if len(groups) == 1 else algorithm
    if algorithm == NCCL_2_4 and op == "all-reduce" and len(gpus) > 1:
        num_ways = len(_channels(topology, gpus, transport).paths)
        return nccl_2_4_choice(num_bytes, len(gpus), len(groups), num_ways, _has_nvlink(topology, gpus))
    rates = nccl_rates(topology, gpus, transport) if transport in NCCL else ()
    return choose(op, transport, len(gpus), num_bytes, max(map(len, groups), default=1), *rates)


def as_seen(topology: Topology, transport: str) -> Topology:
    """Return a cluster as a transport's library uses it: with `ONE_WAY`, channels use one adapter of each socket."""
    return one_adapter_per_socket(topology) if transport == ONE_WAY else topology


def _channels(topology: Topology, gpus: np.ndarray, transport: str) -> Channels:
    """Return NCCL's channels with a transport."""
    return _one_channel(topology, gpus) if transport == ONE_WAY else channels(topology, gpus)


@cached_by_topology(_MAX_GROUPS)
def _one_channel(topology: Topology, gpus: np.ndarray) -> Channels:
    """Return NCCL's channels where all of them leave a host by the first one's way."""
    found = channels(topology, gpus)
    return found if len(by_host(topology.gpu_domains[gpus])) == 1 else Channels(found.paths[:1])


def check_algorithm(
    op: str,
    algorithm: str,
    topology: Topology,
    gpus: np.ndarray,
    transport: str,
    dims: tuple[int, ...] | None = None,
) -> None:
    """Raise InputError for an algorithm that cannot run among these GPUs [num_ranks] of a cluster."""
    if algorithm in _TRANSPORTS_OF_CHOICE:
        library, transports = _TRANSPORTS_OF_CHOICE[algorithm]
        if load_transport(transport).library not in transports:
            message = (
                f"{algorithm} is how {library} chooses; with the transport {transport} write auto, or an algorithm"
            )
            raise InputError(message, got=transport, allowed=", ".join(transports), key="algorithm")
    num_hosts = len(np.unique(topology.gpu_domains[gpus]))
    if algorithm in OF_NCCL_1 and num_hosts > 1:
        message = f"NCCL 1 is for the GPUs of one host, and the {len(gpus)} GPUs are on {num_hosts}; write auto"
        raise InputError(message, got=algorithm, allowed="GPUs of one host, or another algorithm", key="algorithm")
    if algorithm in CHOICES:
        return
    if "dims" in options_of(algorithms_of(op)[algorithm]):
        _dims(topology, len(gpus), dims)
    if len(gpus) > 1 and op in IN_SWITCH and algorithm in IN_SWITCH[op]:
        _check_adding_switch(algorithm, topology, gpus, transport)
    if op in IN_HOST_MEMORY and algorithm in IN_HOST_MEMORY[op] and load_transport(transport).buffers == "host":
        allowed = ", ".join((*NCCL, "ideal"))
        message = (
            f"{algorithm} copies between GPUs and host memory by itself, and with the transport {transport} all "
            f"messages begin in host memory; take one of: {allowed}"
        )
        raise InputError(message, got=transport, allowed=allowed, key="algorithm")


def _check_adding_switch(algorithm: str, topology: Topology, gpus: np.ndarray, transport: str) -> None:
    """Raise InputError where no switch between all of these GPUs can add."""
    why = why_no_adding_switch(topology, gpus)
    if why is None and load_transport(transport).buffers == "host":
        why = f"the transport {transport} has its messages in host memory, and not in the GPUs'", transport
    if why is not None:
        reason, got = why
        allowed = "GPUs of one host with NVSwitch, Hopper or newer, as in dgx-h100"
        message = f"{algorithm} adds in the switch between the GPUs of a host: {reason}; take {allowed}, or another one"
        raise InputError(message, got=got, allowed=allowed, key="algorithm")


def why_no_adding_switch(topology: Topology, gpus: np.ndarray) -> tuple[str, str] | None:
    """Return why no switch can add for all of these GPUs [num_ranks], and what there is instead; None if one can."""
    hosts = np.unique(topology.gpu_domains[gpus]).tolist()
    if len(hosts) > 1:
        return f"the {len(gpus)} GPUs are on {len(hosts)} hosts, and the switch is in one", f"{len(hosts)} hosts"
    if not nodes_in_host(topology, hosts[0], "nvswitch"):
        return f"the hosts of '{topology.name}' have no NVSwitch", "no NVSwitch"
    sheets = dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist())
    for name in sheets:
        if name is None or load_gpu(name).architecture not in NVLS_EFFICIENCY:
            return f"the NVSwitches of {name or 'a GPU without a sheet'} do not add", str(name)
    return None


def _hosts_add(topology: Topology, gpus: np.ndarray) -> bool:
    """Say whether the switch in the first host can add for its GPUs of the group, three or more."""
    first = gpus[topology.gpu_domains[gpus] == topology.gpu_domains[gpus[0]]]
    return len(first) >= FEWEST_FOR_NVLS and why_no_adding_switch(topology, first) is None


def _has_nvlink(topology: Topology, gpus: np.ndarray) -> bool:
    """Say whether the first GPU has an NVLink, to another GPU or to a switch."""
    return bool(topology.is_nvlink[topology.links.src == topology.gpus[gpus[0]]].any())


def by_host(hosts: np.ndarray) -> list[list[int]]:
    """Return the ranks of each host, hosts in the order of their first rank; `hosts` [num_ranks].

    >>> by_host(np.array([7, 3, 7]))
    [[0, 2], [1]]
    """
    ranks: dict[int, list[int]] = {}
    for rank, host in enumerate(hosts.tolist()):
        ranks.setdefault(host, []).append(rank)
    return list(ranks.values())


@cached_by_topology(_MAX_GROUPS)
def nccl_rates(topology: Topology, gpus: np.ndarray, transport: str) -> NcclRates:
    """Return the rates by which NCCL chooses, in bytes/s: of all rings, of their hops inside hosts, and of a switch.

    With them comes what NCCL derives from the GPUs, and the number of channels. In one round of the rings, a link
    carries a share for each hop that goes over it, of as many shares as there are rings.
    """
    rings = _channels(topology, gpus, transport).rings()
    nodes = topology.gpus[gpus[rings]]
    src, dst = nodes.ravel(), np.roll(nodes, -1, axis=1).ravel()
    inside = topology.node_domains[src] == topology.node_domains[dst]
    routes = topology.routes(src, dst)
    all_inside = routes.links[np.repeat(inside, routes.lengths)]

    def bus(crossed: np.ndarray) -> float:
        links, num_hops = np.unique(crossed, return_counts=True)
        return float((topology.links.bytes_per_s[links] / num_hops).min(initial=np.inf)) * len(rings)

    has_nvlink = len(all_inside) > 0 and bool(topology.is_nvlink[all_inside].all())
    whole, architectures = bus(routes.links), _architectures(topology, gpus)
    num_hosts = len(np.unique(topology.gpu_domains[gpus]))
    before = _rings_bytes_per_s_before(topology, gpus, transport) or whole
    num_found, gb_per_s = found_channels(len(rings), before / len(rings), num_hosts, *architectures)
    return NcclRates(
        whole,
        bus(all_inside),
        _switch_bytes_per_s(topology, gpus),
        ring_plateau(*architectures),
        num_found,
        compute_capability(*architectures),
        has_nvlink,
        gb_per_s * 1e9 * (whole / before if before != whole else 1.0),
        num_hosts > 1 and _hosts_add(topology, gpus),
    )


def _architectures(topology: Topology, gpus: np.ndarray) -> list[str]:
    """Return the architectures of GPUs [num_ranks], one for each kind of GPU."""
    names = dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist())
    return ["other" if name is None else load_gpu(name).architecture for name in names]


def num_channels(topology: Topology, gpus: np.ndarray, transport: str = "nccl") -> int:
    """Return the number of channels of an NCCL collective among GPUs [num_ranks]."""
    num_ways = len(_channels(topology, gpus, transport).paths)
    num_hosts = len(by_host(topology.gpu_domains[gpus]))
    before = _rings_bytes_per_s_before(topology, gpus, transport)
    rate = (before or nccl_rates(topology, gpus, transport).bytes_per_s) / num_ways
    return nccl_channels(num_ways, rate, num_hosts, *_architectures(topology, gpus))


def _rings_bytes_per_s_before(topology: Topology, gpus: np.ndarray, transport: str) -> float | None:
    """Return the rate of all rings before rates were multiplied (`Topology.at_speeds`), in bytes/s; None if none were.

    NCCL keeps the channels that it has with that rate.
    """
    if topology.before is None:
        return None
    return nccl_rates(as_seen(topology.before, transport), gpus, transport).bytes_per_s


def _switch_bytes_per_s(topology: Topology, gpus: np.ndarray) -> float | None:
    """Return the rate of the first GPU's link to a switch that adds, in bytes/s; None without one."""
    if len(gpus) < 2 or why_no_adding_switch(topology, gpus) is not None:
        return None
    gpu = int(gpus[0])
    (switch, *_) = nodes_in_host(topology, int(topology.gpu_domains[gpu]), "nvswitch")
    link = topology.route(int(topology.gpus[gpu]), switch)
    return float(topology.links.bytes_per_s[link].min())


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
