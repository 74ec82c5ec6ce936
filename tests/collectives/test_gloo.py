"""gloo's own algorithms: the messages of its sources, and that `auto` chooses them with gloo."""

from __future__ import annotations

import pytest

from clustersim.collectives import ALL_REDUCE, BROADCAST, choose, closed_form


@pytest.mark.parametrize("size", [1e6, 64e6])
@pytest.mark.parametrize("num_ranks", [2, 3, 8])
def test_a_rank_sends_no_more_than_in_any_ring_however_large_the_buffer(num_ranks: int, size: float) -> None:
    sent = sum(t.num_bytes for t in ALL_REDUCE["gloo-ring"](num_ranks, size).transfers() if t.src == 1)
    assert sent == pytest.approx(2 * (num_ranks - 1) / num_ranks * size)


@pytest.mark.parametrize("num_ranks", [2, 5])
def test_a_reduce_scatter_costs_as_much_as_an_all_reduce(num_ranks: int) -> None:
    costs = {closed_form(op, "gloo-ring", num_ranks, 8e6, 1e-6, 8e6) for op in ("all-reduce", "reduce-scatter")}
    assert len(costs) == 1


def test_every_rank_sends_to_the_one_before() -> None:
    assert {(t.src - t.dst) % 5 for t in ALL_REDUCE["gloo-ring"](5, 40e6).transfers()} == {1}


@pytest.mark.parametrize(("num_ranks", "buffers"), [(2, 1), (3, 2), (4, 3), (5, 4), (8, 6), (12, 9), (16, 10)])
def test_a_broadcast_passes_one_link_more_often_than_a_sequential_one(num_ranks: int, buffers: int) -> None:
    assert closed_form("broadcast", "gloo-tree", num_ranks, 8e6, 0.0, 8e6) == pytest.approx(buffers)


def test_the_tree_of_eight_is_that_of_the_sources() -> None:
    edges = {(t.src, t.dst): t.step for t in BROADCAST["gloo-tree"](8, 8.0).transfers()}
    assert edges == {(0, 1): 0, (0, 2): 0, (0, 4): 0, (1, 3): 1, (1, 5): 1, (2, 6): 1, (3, 7): 2}


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("all-reduce", "gloo-ring"),
        ("all-gather", "ring"),
        ("reduce-scatter", "gloo-ring"),
        ("broadcast", "gloo-tree"),
        ("reduce", "gloo-ring"),
        ("gather", "linear"),
    ],
)
def test_gloo_takes_its_own_at_every_size(op: str, name: str) -> None:
    assert {choose(op, "gloo", 6, size) for size in (8.0, 1e9)} == {name}
