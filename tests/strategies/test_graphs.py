"""Gossip graphs, their mixing matrices, and the effect of averaging with them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.graphs import GRAPHS, diameter, mixing_matrix, neighbours, spectral_gap


def matrix(graph: str, num_workers: int, degree: int = 4) -> np.ndarray:
    return mixing_matrix(neighbours(num_workers, GRAPHS[graph](num_workers, degree)))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("num_workers", [6, 8, 15])
def test_weights_are_symmetric_and_average(graph, num_workers):
    weights = matrix(graph, num_workers)
    assert weights == pytest.approx(weights.T)
    assert weights.sum(axis=0) == pytest.approx(np.ones(num_workers))
    assert weights.min() >= -1e-15


@pytest.mark.parametrize("graph", GRAPHS)
def test_replicas_converge_as_fast_as_the_spectral_gap_says(graph):
    weights = matrix(graph, 12)
    copies = np.random.default_rng(0).random(12)
    apart = []
    for _ in range(60):
        apart.append(np.linalg.norm(copies - copies.mean()))
        copies = weights @ copies
    shrinks = 1 - spectral_gap(weights)
    assert all(after <= before * shrinks + 1e-12 for before, after in pairwise(apart))
    assert copies.mean() == pytest.approx(np.random.default_rng(0).random(12).mean())


@pytest.mark.parametrize("num_workers", [1, 2, 5, 16])
def test_on_a_complete_graph_one_step_is_the_average_of_all(num_workers):
    gradients = np.random.default_rng(1).random((num_workers, 4))
    mixed = matrix("complete", num_workers) @ gradients
    assert mixed == pytest.approx(np.tile(gradients.mean(axis=0), (num_workers, 1)))
    assert spectral_gap(matrix("complete", num_workers)) == pytest.approx(1.0)


def test_the_spectral_gap_of_a_ring_is_known():
    """Weights of 1/3 on a ring have the eigenvalues (1 + 2 cos(2 pi k / n)) / 3."""
    assert spectral_gap(matrix("ring", 10)) == pytest.approx(1 - (1 + 2 * np.cos(2 * np.pi / 10)) / 3)


@pytest.mark.parametrize(
    ("graph", "num_workers", "degrees", "furthest"),
    [("ring", 8, {2}, 4), ("wheel", 8, {3, 7}, 2), ("torus", 16, {4}, 4), ("random-regular", 12, {4}, None),
     ("complete", 6, {5}, 1), ("ring", 2, {1}, 1), ("torus", 7, {2}, 3), ("wheel", 2, {1}, 1)],
)  # fmt: skip
def test_a_graph_has_the_degrees_it_is_named_for(graph, num_workers, degrees, furthest):
    near = neighbours(num_workers, GRAPHS[graph](num_workers, 4))
    assert {len(each) for each in near} == degrees
    assert furthest is None or diameter(near) == furthest


@pytest.mark.parametrize(
    ("num_workers", "edges", "words"),
    [
        (4, [(0, 1), (2, 3)], "no path leads from worker 0 to worker 2"),
        (3, [(0, 1), (1, 3)], "an edge leads to worker 3, but there are 3"),
        (2, [], "no path leads from worker 0 to worker 1"),
    ],
)
def test_a_graph_that_is_not_connected_is_refused(num_workers, edges, words):
    with pytest.raises(InputError, match=words):
        neighbours(num_workers, edges)


@pytest.mark.parametrize(("num_workers", "degree"), [(4, 4), (5, 3)])
def test_a_degree_that_no_graph_has_is_refused(num_workers, degree):
    with pytest.raises(InputError, match="cannot all have"):
        GRAPHS["random-regular"](num_workers, degree)


def test_a_graph_of_separate_pairs_is_refused():
    with pytest.raises(InputError, match="give a larger degree"):
        GRAPHS["random-regular"](4, 1)


@pytest.mark.parametrize(("graph", "num_workers", "is_refused"), [
    ("ring", 16_384, False), ("ring", 16_385, True), ("complete", 1_024, False), ("complete", 1_025, True),
    ("complete", 900_000_000, True), ("torus", 900_000_000, True),
])  # fmt: skip
def test_a_graph_too_large_for_the_memory_is_refused_before_it_is_made(
    graph: str, num_workers: int, is_refused: bool
) -> None:
    found = Gossip(graph=graph).mistakes(num_workers)
    assert [mistake.key for mistake in found] == (["graph"] if is_refused else [])
