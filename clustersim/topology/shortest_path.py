"""Shortest-path routes over any graph: least delay, then fewest links; one search per destination."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clustersim.errors import InputError
from clustersim.topology.flow_hash import flow_hash
from clustersim.topology.topology import Links

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CACHED_BYTES = 64_000_000


class ShortestPathRouter:
    """Returns the route with the least delay, then the fewest links; a hash of the two ends selects among equal routes.

    Every link costs its delay and a billionth of the largest delay, so that fewer links win between equal
    delays. Distances are cached for the latest destinations; a node with one incoming link uses those of
    its neighbour. Nothing is computed for all pairs.
    """

    def __init__(self, names: Sequence[Hashable], links: Links):
        self._num_nodes = num_nodes = len(names)
        self._links = links
        self._names = names
        self._distances: OrderedDict[int, np.ndarray] = OrderedDict()
        self._num_cached = max(16, _CACHED_BYTES // (8 * max(1, num_nodes)))

    def __call__(self, src: int, dst: int) -> list[int]:
        tail: list[int] = []
        target = dst
        while target != src and len(self._into[target]) == 1 and len(tail) < self._num_nodes:
            tail.append(self._into[target][0])
            target = self._src[tail[-1]]
        return self._walk(src, target, flow_hash(src, dst)) + tail[::-1]

    def _walk(self, here: int, target: int, choice: int) -> list[int]:
        if here == target:
            return []
        distance = self._distance_to(target)
        if not np.isfinite(distance[here]):
            raise InputError(
                f"there is no route from node {self._names[here]!r} to node {self._names[target]!r} in this topology"
            )
        links: list[int] = []
        while here != target:
            costs = [(self._cost[link] + distance[self._dst[link]], link) for link in self._out[here]]
            least = min(cost for cost, _ in costs)
            best = [link for cost, link in costs if cost <= least + self._tolerance]
            links.append(best[choice % len(best)])
            choice = choice // len(best) if choice >= len(best) else flow_hash(choice, len(links))
            here = self._dst[links[-1]]
        return links

    @cached_property
    def _forward(self) -> np.ndarray:
        """[num_forward] the links that routes may use: all except those from a node to itself."""
        return np.flatnonzero(self._links.src != self._links.dst)

    @cached_property
    def _tolerance(self) -> float:
        """Less than the cost of a link, more than the rounding of a sum."""
        return self._penalty / 2

    @cached_property
    def _penalty(self) -> float:
        largest = float(self._links.latency_s.max(initial=0.0))
        return largest * 1e-9 if largest > 0 else 1.0

    @cached_property
    def _cost(self) -> list[float]:
        costs: list[float] = (self._links.latency_s + self._penalty).tolist()
        return costs

    @cached_property
    def _src(self) -> list[int]:
        return [int(node) for node in self._links.src]

    @cached_property
    def _dst(self) -> list[int]:
        return [int(node) for node in self._links.dst]

    @cached_property
    def _out(self) -> list[list[int]]:
        return _by_node(self._num_nodes, self._forward, self._src)

    @cached_property
    def _into(self) -> list[list[int]]:
        return _by_node(self._num_nodes, self._forward, self._dst)

    def _distance_to(self, target: int) -> np.ndarray:
        """Return the cost from every node [num_nodes] to the target."""
        if target in self._distances:
            self._distances.move_to_end(target)
            return self._distances[target]
        from scipy.sparse.csgraph import dijkstra

        distance: np.ndarray = dijkstra(self._reversed, indices=[target])[0]
        self._distances[target] = distance
        if len(self._distances) > self._num_cached:
            self._distances.popitem(last=False)
        return distance

    @cached_property
    def _reversed(self) -> csr_array[np.float64, tuple[int, int]]:
        """The reversed graph, with the cheapest of parallel links."""
        from scipy.sparse import csr_array

        src, dst = self._links.src[self._forward], self._links.dst[self._forward]
        cost = np.array(self._cost)[self._forward]
        order = np.lexsort((cost, src, dst))
        src, dst, cost = src[order], dst[order], cost[order]
        first = np.ones(len(src), dtype=bool)
        first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
        return csr_array((cost[first], (dst[first], src[first])), shape=(self._num_nodes, self._num_nodes))


def _by_node(num_nodes: int, links: np.ndarray, ends: list[int]) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in range(num_nodes)]
    for link in links.tolist():
        lists[ends[link]].append(link)
    return lists
