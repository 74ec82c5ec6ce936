"""Channels of a collective: its paths through hosts with several network adapters, or with several rings of NVLinks.

NCCL (`src/graph/search.cc` and `connect.cc`) divides a collective into channels that run in parallel. Each visits all
GPUs of a host one after another and leaves it by another adapter; on hosts with NVLinks from GPU to GPU, each uses
other NVLinks. Here a channel is an order of ranks, found from the graph: the GPUs in the group, the port by which each
leaves its host, and the NVLinks between GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.topology.mesh import NvlinkMesh
from clustersim.topology.topology import Topology

_MAX_CACHED = 64  # groups of GPUs of a topology


class Channels(NamedTuple):
    """Parallel paths through the same hosts: `paths[channel][host]` are the ranks of a host in order.

    A path begins at the GPU of the channel's adapter. Hosts are in the order of their first ranks.
    """

    paths: list[list[np.ndarray]]

    def rings(self) -> np.ndarray:
        """Return the ranks in the order of each channel's ring [num_channels, num_ranks].

        With several channels, every other host is traversed backwards: a ring that leaves a host by an adapter then
        enters the next one by the adapter on the same rail.
        """
        if len(self.paths) == 1:
            return np.concatenate(self.paths[0])[None]
        oriented = [[path[:: -1 if host % 2 else 1] for host, path in enumerate(paths)] for paths in self.paths]
        return np.array([np.concatenate(paths) for paths in oriented])


_CACHE: WeakKeyDictionary[Topology, dict[bytes, Channels]] = WeakKeyDictionary()
_MESHES: WeakKeyDictionary[Topology, NvlinkMesh] = WeakKeyDictionary()


def channels(topology: Topology, gpus: np.ndarray) -> Channels:
    """Return the channels of a collective among GPUs [num_ranks].

    Among several hosts there is one for each adapter by which the group's GPUs leave their host, as many as in the host
    with the fewest. In one host there are two, one in each direction, for each of the edge-disjoint rings of its
    NVLinks; GPUs on a switch, or on PCIe only, have one channel.
    """
    known = _CACHE.setdefault(topology, {})
    key = np.asarray(gpus, dtype=np.int64).tobytes()
    if key not in known:
        if len(known) >= _MAX_CACHED:
            del known[next(iter(known))]
        known[key] = _find(topology, gpus)
    return known[key]


def ring_orders(topology: Topology, gpus: np.ndarray) -> np.ndarray:
    """Return the ranks in the order of each ring that NCCL would run among GPUs [num_rings, num_ranks].

    >>> from clustersim.topology import load_topology
    >>> host = {"template": "dgx-a100", "num_gpus": 4, "nics": 2}
    >>> cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": host})
    >>> ring_orders(cluster, np.arange(8)).tolist()
    [[1, 2, 3, 0, 4, 7, 6, 5], [3, 0, 1, 2, 6, 5, 4, 7]]
    """
    return channels(topology, gpus).rings()


def _find(topology: Topology, gpus: np.ndarray) -> Channels:
    hosts = _hosts(topology, gpus)
    if topology not in _MESHES:
        _MESHES[topology] = NvlinkMesh(topology)
    mesh = _MESHES[topology]
    if len(hosts) == 1:
        rings = mesh.rings(gpus[hosts[0]]) or [np.arange(len(gpus))]
        return Channels([[hosts[0][ring]] for ring in rings])
    if len(hosts) == len(gpus):
        return Channels([hosts])
    exits, distance = _exits(topology, gpus, hosts)
    fewest = min(len(np.unique(exits[ranks])) for ranks in hosts)
    found: dict[tuple[bytes, ...], list[np.ndarray]] = {}
    paths: list[list[np.ndarray]] = [[] for _ in range(fewest)]
    for ranks in hosts:
        if fewest > 1:
            ranks = ranks[np.argsort(gpus[ranks], kind="stable")]
        own = gpus[ranks]
        nodes, out = topology.gpus[own], exits[ranks]
        key = (nodes - nodes[0]).tobytes(), (out - nodes[0]).tobytes(), mesh.wiring(int(own[0]))
        if key not in found:
            found[key] = mesh.paths(own, out, fewest) or _rotations(out, distance[ranks], fewest)
        for path, order in zip(paths, found[key], strict=True):
            path.append(ranks[order])
    return Channels(paths)


def _hosts(topology: Topology, gpus: np.ndarray) -> list[np.ndarray]:
    """Return the ranks of each host, or NVLink domain of several, in the order of their first rank.

    GPUs of a host that only the network connects, and GPUs without a host, are separate.
    """
    number = topology.gpu_domains[gpus]
    all_ranks = np.arange(len(gpus))
    alone = number < 0
    order = np.argsort(number, kind="stable")
    inside = np.flatnonzero((number[order][1:] == number[order][:-1]) & ~alone[order][1:])
    ends = topology.gpus[gpus[order]]
    routes = topology.routes(ends[inside], ends[inside + 1])
    if len(inside) and (topology.node_domains[topology.links.dst[routes.links]] < 0).any():
        alone[:] = True
    own = np.where(alone, -1 - all_ranks, number)
    _, first, which = np.unique(own, return_index=True, return_inverse=True)
    index = np.argsort(np.argsort(first))[which]
    by_index = np.argsort(index, kind="stable")
    return np.split(by_index, np.flatnonzero(np.diff(index[by_index])) + 1)


def _exits(topology: Topology, gpus: np.ndarray, hosts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the node by which a message from each rank to the next host leaves its own, and how far it is there.

    Both are [num_ranks]. The GPUs from which the way out of their host has the highest rate, and of those the fewest
    links, are at the distance 0, the next ones at 1, and so on.
    """
    nodes = topology.gpus[gpus]
    following = np.empty(len(gpus), dtype=np.int64)
    for ranks, others in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
        following[ranks] = nodes[others[0]]
    routes = topology.routes(nodes, following)
    pair = np.repeat(np.arange(len(gpus)), routes.lengths)
    src, dst = topology.links.src[routes.links], topology.links.dst[routes.links]
    domains = topology.node_domains
    own = domains[nodes][pair]
    leaves = np.flatnonzero((domains[src] == own) & (domains[dst] != own))
    exits: np.ndarray = nodes.copy()
    exits[pair[leaves[::-1]]] = src[leaves[::-1]]  # the first of a route counts
    inside = (domains[src] == own) & (domains[dst] == own)
    slowest = np.full(len(gpus), np.inf)
    np.minimum.at(slowest, pair[inside], topology.links.bytes_per_s[routes.links[inside]])
    far = np.stack([-slowest, np.bincount(pair[inside], minlength=len(gpus))], axis=1)
    return exits, np.unique(far, axis=0, return_inverse=True)[1].ravel()


def _rotations(exits: np.ndarray, distance: np.ndarray, num_channels: int) -> list[np.ndarray]:
    """Return orders of a host's GPUs, each beginning at a GPU with another exit node (`exits` [num_gpus]), in a cycle.

    If possible they also end at different exit nodes, at best at the one where they began. Among those, they begin and
    end as near their exit node as possible (`distance` [num_gpus]): a ring enters a host by the first GPU and leaves it
    by the last.
    """
    num = len(exits)
    ends = np.maximum(distance, np.roll(distance, 1))  # of the way from the GPU before and to this one
    if num_channels == 1:
        return [np.roll(np.arange(num), -int(ends.argmin()))]
    _, first = np.unique(exits, return_index=True)
    names = exits[np.sort(first)][:num_channels]
    same = [np.flatnonzero((exits == exit_node) & (np.roll(exits, 1) == exit_node)) for exit_node in names]
    if all(len(starts) for starts in same):
        return [np.roll(np.arange(num), -int(starts[ends[starts].argmin()])) for starts in same]
    in_turn = np.arange(num)
    starts = [int(np.flatnonzero(exits == exit_node)[0]) for exit_node in names]
    if len({int(exits[start - 1]) for start in starts}) < num_channels:
        in_turn = np.concatenate([np.flatnonzero(exits == exit_node) for exit_node in dict.fromkeys(exits.tolist())])
        starts = [int(np.flatnonzero(exits[in_turn] == exit_node)[0]) for exit_node in names]
    return [np.roll(in_turn, -start) for start in starts]
