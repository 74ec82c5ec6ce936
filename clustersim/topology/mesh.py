"""NVLinks from GPU to GPU, and the rings and paths along them that visit every GPU of a group once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from clustersim.topology.topology import Topology

_MOST_LOOKS = 200_000  # GPUs that a search goes on to before it gives up


class NvlinkMesh:
    """How many NVLinks each GPU has to each other one of its host, where they are wired without a switch."""

    def __init__(self, topology: Topology):
        links, hosts = topology.links, topology.node_hosts
        is_gpu = np.zeros(len(hosts), dtype=bool)
        is_gpu[topology.gpus] = True
        both = is_gpu[links.src] & is_gpu[links.dst] & (links.src != links.dst)
        own = np.flatnonzero(both & (hosts[links.src] == hosts[links.dst]) & (hosts[links.src] >= 0))
        own = own[np.argsort(hosts[links.src[own]], kind="stable")]  # host by host
        self._src, self._dst, self._bytes_per_s = links.src[own], links.dst[own], links.bytes_per_s[own]
        self._hosts = hosts[self._src]
        self._nodes = topology.gpus
        self._node_hosts = hosts

    @property
    def is_any(self) -> bool:
        """Whether there are such links at all."""
        return len(self._src) > 0

    def wiring(self, gpu: int) -> bytes:
        """Return what tells the NVLinks of a GPU's host from those of hosts that are wired in another way."""
        node = self._nodes[gpu]
        first, end = np.searchsorted(self._hosts, self._node_hosts[node] + np.array([0, 1])).tolist()
        own = slice(first, end)
        return np.stack([self._src[own] - node, self._dst[own] - node, self._bytes_per_s[own]]).tobytes()

    def rings(self, gpus: np.ndarray) -> list[np.ndarray]:
        """Return orders of GPUs [num_gpus] of one host, each a ring along NVLinks: as many as use none twice.

        Each goes both ways round, as NVLinks do. They are none where two or fewer GPUs are asked for, or no ring is
        found. On a DGX-1 with P100 they are four, with V100 six: three rings, of which two are alike, both ways.
        """
        free = self._num_nvlinks(gpus)
        if len(gpus) < 3 or not free.any():
            return []
        rings = _most_rings(free)
        return [np.array(way) for ring in rings for way in (ring, [ring[0], *ring[:0:-1]])]

    def paths(self, gpus: np.ndarray, doors: np.ndarray, num_paths: int) -> list[np.ndarray]:
        """Return orders of GPUs [num_gpus] of one host, each along NVLinks, and from another of its doors on.

        `doors` [num_gpus] is where each GPU leaves the host. No path takes an NVLink that another takes, and
        each ends at a GPU of the door where it began, or, if it has no other, of the door before that. They are none
        where that cannot be.
        """
        free = self._num_nvlinks(gpus)
        if len(gpus) < 2 or not free.any():
            return []
        names = list(dict.fromkeys(doors.tolist()))
        ends = []
        for number, door in enumerate(names[:num_paths]):
            starts = np.flatnonzero(doors == door).tolist()
            before = np.flatnonzero(doors == names[number - 1]).tolist()
            ends.append((starts, starts if len(starts) > 1 else before))
        return [np.array(path) for path in _apart(free, ends, _Looks())]

    def _num_nvlinks(self, gpus: np.ndarray) -> np.ndarray:
        """Return from how many NVLinks the link from each GPU to each other is made [num_gpus, num_gpus].

        The slowest of the host counts as one.
        """
        nodes = self._nodes[gpus]
        first, end = np.searchsorted(self._hosts, self._node_hosts[nodes[0]] + np.array([0, 1])).tolist()
        place = {node: number for number, node in enumerate(nodes.tolist())}
        rates = np.zeros((len(gpus), len(gpus)))
        ends = zip(self._src[first:end].tolist(), self._dst[first:end].tolist(), strict=True)
        for link, (src, dst) in enumerate(ends, start=first):
            if src in place and dst in place:
                rates[place[src], place[dst]] += self._bytes_per_s[link]
        rates = np.minimum(rates, rates.T)
        if not rates.any():
            return np.zeros(rates.shape, dtype=np.int64)
        num: np.ndarray = np.floor(rates / rates[rates > 0].min() + 0.5).astype(np.int64)
        return num


class _Looks:
    """How often a search may still go on to a GPU."""

    def __init__(self) -> None:
        self._left = _MOST_LOOKS

    def one_more(self) -> bool:
        self._left -= 1
        return self._left >= 0


def _most_rings(free: np.ndarray) -> list[list[int]]:
    """Return as many rings as can be found that use no NVLink twice, in either direction."""
    looks, best = _Looks(), list[list[int]]()
    bound = int(free.sum(axis=1).min()) // 2

    def search(rings: list[list[int]]) -> bool:
        """Look for more rings beside these; return whether there cannot be more than were found."""
        nonlocal best
        if len(rings) > len(best):
            best = rings
        if len(best) == bound:
            return True
        for path in _through(free, [0], [*range(1, len(free))], looks):
            if not free[path[-1], 0]:
                continue
            _take(free, [*path, 0], -1)
            done = search([*rings, path])
            _take(free, [*path, 0], 1)
            if done or not looks.one_more():
                return True
        return False

    search([])
    return best


def _take(free: np.ndarray, path: list[int], change: int) -> None:
    """Take the NVLinks of a path, both ways, or give them back."""
    for a, b in pairwise(path):
        free[a, b] += change
        free[b, a] += change


def _apart(free: np.ndarray, ends: list[tuple[list[int], list[int]]], looks: _Looks) -> list[list[int]]:
    """Return a path for each pair of starts and ends, no two along the same NVLink; none if they are not found."""
    if not ends:
        return []
    starts, lasts = ends[0]
    for path in _through(free, starts, lasts, looks):
        free[path[:-1], path[1:]] -= 1
        others = _apart(free, ends[1:], looks)
        free[path[:-1], path[1:]] += 1
        if others or len(ends) == 1:
            return [path, *others]
    return []


def _through(free: np.ndarray, starts: list[int], ends: list[int], looks: _Looks) -> Iterator[list[int]]:
    """Yield paths through all GPUs over NVLinks that are free, those over the most of them first."""

    def further(path: list[int]) -> Iterator[list[int]]:
        if len(path) == len(free):
            if path[-1] in ends:
                yield path
            return
        here = free[path[-1]]
        for gpu in sorted(np.flatnonzero(here).tolist(), key=lambda gpu: -here[gpu]):
            if gpu not in path and looks.one_more():
                yield from further([*path, gpu])

    for start in starts:
        yield from further([start])
