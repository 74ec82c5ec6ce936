"""Graphs along which workers gossip, the weights with which they average, and how fast they come to agree."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.registry import Registry

Edge = tuple[int, int]
_MOST_TRIES = 1000


def ring(num_workers: int, degree: int) -> list[Edge]:
    """Return a circle: everybody has two neighbours.

    >>> ring(3, 0)
    [(0, 1), (1, 2), (2, 0)]
    """
    return [(worker, (worker + 1) % num_workers) for worker in range(num_workers)]


def wheel(num_workers: int, degree: int) -> list[Edge]:
    """Return a circle of workers 1 to n - 1, and worker 0 in its middle, a neighbour of all."""
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
    """Return everybody as everybody's neighbour."""
    return [(one, other) for one in range(num_workers) for other in range(one + 1, num_workers)]


def random_regular(num_workers: int, degree: int) -> list[Edge]:
    """Return a random graph in which all have `degree` neighbours: the first connected one that is drawn.

    It is the same for all seeds of a scenario, so that strategies are compared on one graph.
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
        f"no connected graph in which all of {num_workers} workers have {degree} neighbours was found; "
        "give a larger degree",
        got=str(degree),
    )


GRAPHS: Registry[Callable[[int, int], list[Edge]]] = Registry(
    "gossip graph",
    {"complete": complete, "random-regular": random_regular, "ring": ring, "torus": torus, "wheel": wheel},
)


def neighbours(num_workers: int, edges: Sequence[Edge]) -> list[list[int]]:
    """Return the neighbours of each worker [num_workers], in order; an edge goes both ways.

    >>> neighbours(3, [(0, 1), (1, 2)])
    [[1], [0, 2], [1]]
    """
    near: list[set[int]] = [set() for _ in range(num_workers)]
    for one, other in edges:
        for a, b in ((one, other), (other, one)):
            if not 0 <= b < num_workers:
                raise InputError(
                    f"an edge leads to worker {b}, and there are {num_workers}, numbered from 0", got=str(b)
                )
            if a != b:
                near[a].add(b)
    unreached = set(range(num_workers)) - set(distances(near, 0))
    if unreached:
        raise InputError(
            f"the graph falls apart: there is no way from worker 0 to worker {min(unreached)}, so they never agree",
            got=f"{len(unreached)} workers cut off",
            allowed="a connected graph",
        )
    return [sorted(each) for each in near]


def distances(near: Sequence[Sequence[int] | set[int]], start: int) -> dict[int, int]:
    """Return how many edges lie between a worker and those it can reach."""
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
    """Return the weights [num_workers, num_workers] with which workers average: symmetric, every row sums to 1.

    Metropolis and Hastings: 1 / (1 + the larger of both degrees) for neighbours, the rest for oneself
    (Xiao, Boyd and Kim, 2007). On a complete graph every weight is 1 / n, which is the average of all.
    """
    weights = np.zeros((len(near), len(near)))
    for worker, others in enumerate(near):
        for other in others:
            weights[worker, other] = 1 / (1 + max(len(others), len(near[other])))
        weights[worker, worker] = 1 - weights[worker].sum()
    return weights


def spectral_gap(weights: np.ndarray) -> float:
    """Return 1 - |lambda_2| of a mixing matrix: 1 means that one averaging makes all agree, near 0 that it takes long.

    The distance from agreement shrinks by |lambda_2| an iteration (Lian et al., 2017).

    >>> spectral_gap(np.full((4, 4), 0.25)) > 1 - 1e-12
    True
    """
    if len(weights) < 2:
        return 1.0
    return 1.0 - float(np.sort(np.abs(np.linalg.eigvalsh(weights)))[-2])
