"""NVLinks from GPU to GPU, and rings and paths along them that visit every GPU of a group once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from clustersim.topology.topology import Topology

_MAX_SEARCH_STEPS = 200_000  # GPUs that a search visits before it gives up
_PARTS = (1, 2)
"""Parts of the slowest link that a ring uses one of. NCCL tries speeds of channels down to 0.49 of the best one."""


class NvlinkMesh:
    """Number of NVLinks between each two GPUs of a host, if they are connected without a switch."""

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

    def wiring(self, gpu: int) -> bytes:
        """Return a key that is equal for hosts with the same NVLinks."""
        node = self._nodes[gpu]
        first, end = np.searchsorted(self._hosts, self._node_hosts[node] + np.array([0, 1])).tolist()
        own = slice(first, end)
        return np.stack([self._src[own] - node, self._dst[own] - node, self._bytes_per_s[own]]).tobytes()

    def rings(self, gpus: np.ndarray) -> list[np.ndarray]:
        """Return orders of GPUs [num_gpus] of one host, each a ring of NVLinks: as many edge-disjoint ones as possible.

        Each goes in both directions, as NVLinks do. There are none for two or fewer GPUs, or if no ring is found. On a
        DGX-1 with P100 there are four, with V100 six: three rings, of which two are equal, in both directions. Where
        links of all GPUs are left over, rings in one direction are tried too, and then rings of half a link: eight
        GPUs that are all joined by one link have seven, four have six halves.
        """
        best: list[list[int]] = []
        num_links = 0.0  # that the best rings use of each GPU, in slowest links
        for parts in _PARTS if len(gpus) > 2 else ():
            free = self._num_nvlinks(gpus, parts)
            most = int(free.sum(axis=1).min())
            if most / parts <= num_links:
                break
            found = [way for ring in _most_rings(free) for way in (ring, [ring[0], *ring[:0:-1]])]
            one_way = _most_one_way(free) if parts == 1 and len(found) < most else []
            found = max(found, one_way, key=len)
            if len(found) / parts > num_links:
                best, num_links = found, len(found) / parts
        return [np.array(ring) for ring in best]

    def paths(self, gpus: np.ndarray, exits: np.ndarray, num_paths: int) -> list[np.ndarray]:
        """Return orders of GPUs [num_gpus] of one host, each along NVLinks, each beginning at another exit node.

        `exits` [num_gpus] are the nodes by which the GPUs leave the host. No two paths use the same NVLink, and each
        ends at a GPU of the exit node where it began, or, if it has no other GPU, of the exit node before that one. The
        list is empty if there are no such paths.
        """
        free = self._num_nvlinks(gpus)
        if len(gpus) < 2 or not free.any():
            return []
        names = list(dict.fromkeys(exits.tolist()))
        ends = []
        for number, exit_node in enumerate(names[:num_paths]):
            starts = np.flatnonzero(exits == exit_node).tolist()
            before = np.flatnonzero(exits == names[number - 1]).tolist()
            ends.append((starts, starts if len(starts) > 1 else before))
        return [np.array(path) for path in _disjoint_paths(free, ends, _SearchBudget())]

    def _num_nvlinks(self, gpus: np.ndarray, parts: int = 1) -> np.ndarray:
        """Return the number of NVLinks in the link from each GPU to each other [num_gpus, num_gpus].

        The slowest of the host counts as one, or as so many `parts`.
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
        num: np.ndarray = np.floor(parts * rates / rates[rates > 0].min() * (1 + 1e-9)).astype(np.int64)
        return num


class _SearchBudget:
    """The number of steps that a search may still take."""

    def __init__(self, num_steps: int = _MAX_SEARCH_STEPS) -> None:
        self._left = num_steps

    def spend(self) -> bool:
        self._left -= 1
        return self._left >= 0


def _most_rings(free: np.ndarray) -> list[list[int]]:
    """Return the largest set of edge-disjoint rings that is found, with NVLinks counted in both directions."""
    return _search_rings(free, int(free.sum(axis=1).min()) // 2, _use_both_ways, _MAX_SEARCH_STEPS)


def _most_one_way(free: np.ndarray) -> list[list[int]]:
    """Return the largest set of rings that is found, no two of which use the same NVLink in the same direction."""
    return _search_rings(free, int(free.sum(axis=1).min()), _use, _MAX_SEARCH_STEPS // 10)


def _search_rings(
    free: np.ndarray, bound: int, use: Callable[[np.ndarray, list[int], int], None], max_steps: int
) -> list[list[int]]:
    """Return at most `bound` rings along free NVLinks; `use` takes those of a ring, or gives them back."""
    budget, best = _SearchBudget(max_steps), list[list[int]]()

    def search(rings: list[list[int]]) -> bool:
        """Search for more rings beside these; return whether the search is over."""
        nonlocal best
        if len(rings) > len(best):
            best = rings
        if len(best) == bound:
            return True
        for path in _hamiltonian_paths(free, [0], [*range(1, len(free))], budget):
            if not free[path[-1], 0]:
                continue
            use(free, [*path, 0], -1)
            done = search([*rings, path])
            use(free, [*path, 0], 1)
            if done or not budget.spend():
                return True
        return False

    search([])
    return best


def _use(free: np.ndarray, path: list[int], change: int) -> None:
    """Remove the NVLinks of a path from `free`, or add them again."""
    for a, b in pairwise(path):
        free[a, b] += change


def _use_both_ways(free: np.ndarray, path: list[int], change: int) -> None:
    """Remove the NVLinks of a path from `free` in both directions, or add them again."""
    _use(free, path, change)
    _use(free, path[::-1], change)


def _disjoint_paths(
    free: np.ndarray, ends: list[tuple[list[int], list[int]]], budget: _SearchBudget
) -> list[list[int]]:
    """Return a path for each pair of starts and ends, no two along the same NVLink; empty if there are none."""
    if not ends:
        return []
    starts, lasts = ends[0]
    for path in _hamiltonian_paths(free, starts, lasts, budget):
        free[path[:-1], path[1:]] -= 1
        others = _disjoint_paths(free, ends[1:], budget)
        free[path[:-1], path[1:]] += 1
        if others or len(ends) == 1:
            return [path, *others]
    return []


def _hamiltonian_paths(
    free: np.ndarray, starts: list[int], ends: list[int], budget: _SearchBudget
) -> Iterator[list[int]]:
    """Yield paths through all GPUs over free NVLinks, those over the most NVLinks first."""

    def further(path: list[int]) -> Iterator[list[int]]:
        if len(path) == len(free):
            if path[-1] in ends:
                yield path
            return
        here = free[path[-1]]
        for gpu in sorted(np.flatnonzero(here).tolist(), key=lambda gpu: -here[gpu]):
            if gpu not in path and budget.spend():
                yield from further([*path, gpu])

    for start in starts:
        yield from further([start])
