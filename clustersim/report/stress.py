"""Layout of a small connected graph: drawn distances approximate the distances in the graph."""

from __future__ import annotations

from collections import deque

import numpy as np

NUM_ROUNDS = 200


def stress_layout(nodes: list[str], edges: set[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Return positions whose distances approximate the number of edges between nodes; neighbours are about 1 apart.

    Minimises the sum of (distance / hops - 1)^2 over all pairs by majorisation (Gansner, Koren and North,
    "Graph drawing by stress majorization", 2004) from a circle in the order of `nodes`; no randomness.

    >>> places = stress_layout(["a", "b"], {("a", "b")})
    >>> round(abs(places["a"][0] - places["b"][0]), 6)
    1.0
    """
    number = len(nodes)
    if number == 1:
        return {nodes[0]: (0.0, 0.0)}
    hops = _hops(nodes, edges)
    weight = 1.0 / np.maximum(hops, 1.0) ** 2
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian)
    angle = 2 * np.pi * np.arange(number) / number
    places = hops.max() / 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for _ in range(NUM_ROUNDS):
        apart = places[:, None, :] - places[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        pull = -weight * hops / distance
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        places = inverse @ (pull @ places)
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, places, strict=True)}


def connected_components(nodes: list[str], edges: set[tuple[str, str]]) -> list[list[str]]:
    """Return the connected components of a graph, the largest first, each in the order of `nodes`.

    >>> connected_components(["a", "b", "c"], {("c", "a")})
    [['a', 'c'], ['b']]
    """
    near = _neighbours(nodes, edges)
    pieces, seen = [], set[str]()
    for node in nodes:
        if node not in seen:
            reached = set(_distances(node, near))
            seen |= reached
            pieces.append([other for other in nodes if other in reached])
    return sorted(pieces, key=lambda piece: -len(piece))


def _hops(nodes: list[str], edges: set[tuple[str, str]]) -> np.ndarray:
    """Return the number of edges between every two nodes, [num_nodes, num_nodes]."""
    near = _neighbours(nodes, edges)
    return np.array(
        [[distances[other] for other in nodes] for distances in (_distances(node, near) for node in nodes)], float
    )


def _neighbours(nodes: list[str], edges: set[tuple[str, str]]) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in sorted(edges):
        if a in near and b in near:
            near[a].append(b)
            near[b].append(a)
    return near


def _distances(start: str, near: dict[str, list[str]]) -> dict[str, int]:
    distances, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in near[node]:
            if other not in distances:
                distances[other] = distances[node] + 1
                queue.append(other)
    return distances
