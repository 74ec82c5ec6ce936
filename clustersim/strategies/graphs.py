"""Graphs of neighbours for gossip, their mixing matrices, and how fast replicas converge to their average."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.registry import Registry

Edge = tuple[int, int]
_MOST_TRIES = 1000


def ring(num_workers: int, degree: int) -> list[Edge]:
    """Return a ring: every worker has two neighbours.

    >>> ring(3, 0)
    [(0, 1), (1, 2), (2, 0)]
    """
    return [(worker, (worker + 1) % num_workers) for worker in range(num_workers)]


def wheel(num_workers: int, degree: int) -> list[Edge]:
    """Return a ring of workers 1 to n - 1, and worker 0 as a neighbour of all."""
    rim = num_workers - 1
    spokes = [(0, worker) for worker in range(1, num_workers)]
    return spokes + [(1 + worker, 1 + (worker + 1) % rim) for worker in range(rim)]


def torus(num_workers: int, degree: int) -> list[Edge]:
    """Return a torus of two dimensions, as square as the number of workers allows."""
    rows = max(each for each in range(1, int(num_workers**0.5) + 1) if num_workers % each == 0)
    columns = num_workers // rows
    place = np.arange(num_workers).reshape(rows, columns)
    right, below = np.roll(place, -1, axis=1), np.roll(place, -1, axis=0)
    ends = [(one, other) for others in (right, below) for one, other in zip(place.flat, others.flat, strict=True)]
    return [(int(one), int(other)) for one, other in ends]


def complete(num_workers: int, degree: int) -> list[Edge]:
    """Return all pairs: every worker is a neighbour of every other."""
    return [(one, other) for one in range(num_workers) for other in range(one + 1, num_workers)]


def random_regular(num_workers: int, degree: int) -> list[Edge]:
    """Return a random graph in which all workers have `degree` neighbours: the first connected one that is drawn.

    It is the same for all seeds of a scenario, so all strategies are compared on one graph.
    """
    import networkx as nx

    if degree >= num_workers or degree * num_workers % 2:
        raise InputError(
            f"{num_workers} workers cannot all have {degree} neighbours: the degree must be below the number of "
            "workers, and their product even",
            got=str(degree),
        )
    for attempt in range(_MOST_TRIES):
        graph = nx.random_regular_graph(degree, num_workers, seed=attempt)
        if nx.is_connected(graph):
            return sorted((min(edge), max(edge)) for edge in graph.edges)
    raise InputError(
        f"found no connected graph in which each of {num_workers} workers has {degree} neighbours; "
        "give a larger degree",
        got=str(degree),
    )


GRAPHS: Registry[Callable[[int, int], list[Edge]]] = Registry(
    "gossip graph",
    {"complete": complete, "random-regular": random_regular, "ring": ring, "torus": torus, "wheel": wheel},
)


def neighbours(num_workers: int, edges: Sequence[Edge]) -> list[list[int]]:
    """Return the neighbours of each worker [num_workers], in ascending order; an edge goes both ways.

    >>> neighbours(3, [(0, 1), (1, 2)])
    [[1], [0, 2], [1]]
    """
    near: list[set[int]] = [set() for _ in range(num_workers)]
    for one, other in edges:
        for a, b in ((one, other), (other, one)):
            if not 0 <= b < num_workers:
                raise InputError(
                    f"an edge leads to worker {b}, but there are {num_workers} workers, numbered from 0", got=str(b)
                )
            if a != b:
                near[a].add(b)
    unreached = set(range(num_workers)) - set(distances(near, 0))
    if unreached:
        raise InputError(
            f"the graph is not connected: no path leads from worker 0 to worker {min(unreached)}",
            got=f"{len(unreached)} workers cut off",
            allowed="a connected graph",
        )
    return [sorted(each) for each in near]


def distances(near: Sequence[Sequence[int] | set[int]], start: int) -> dict[int, int]:
    """Return the distance in edges from a worker to each worker that it can reach."""
    found, queue = {start: 0}, deque([start])
    while queue:
        worker = queue.popleft()
        for other in sorted(near[worker]):
            if other not in found:
                found[other] = found[worker] + 1
                queue.append(other)
    return found


def diameter(near: Sequence[Sequence[int]]) -> int:
    """Return the largest distance between two workers, in edges."""
    return max(max(distances(near, worker).values()) for worker in range(len(near)))


def mixing_matrix(near: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the mixing matrix [num_workers, num_workers] of averaging weights: symmetric, every row sums to 1.

    Weights of Metropolis and Hastings: 1 / (1 + the larger of both degrees) for a neighbour, the rest for the worker
    itself (Xiao, Boyd and Kim, 2007). On a complete graph every weight is 1 / n, which is the average of all.
    """
    weights = np.zeros((len(near), len(near)))
    for worker, others in enumerate(near):
        for other in others:
            weights[worker, other] = 1 / (1 + max(len(others), len(near[other])))
        weights[worker, worker] = 1 - weights[worker].sum()
    return weights


def spectral_gap(weights: np.ndarray) -> float:
    """Return 1 - |lambda_2| of a mixing matrix: with 1 all replicas agree after one averaging, near 0 it takes long.

    Every iteration multiplies the distance from agreement by |lambda_2| (Lian et al., 2017).

    >>> spectral_gap(np.full((4, 4), 0.25)) > 1 - 1e-12
    True
    """
    if len(weights) < 2:
        return 1.0
    return 1.0 - float(np.sort(np.abs(np.linalg.eigvalsh(weights)))[-2])
