"""Times of algorithms on an idle star: formulas against a step-by-step oracle in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import (
    COLLECTIVES,
    Schedule,
    closed_form,
    server_seconds,
    torus_ring_seconds,
    tree_seconds,
)
from clustersim.collectives.closed_form import COSTS
from clustersim.collectives.double_tree import double_trees
from clustersim.errors import InputError

StarSeconds = Callable[[Schedule, float, float], list[float]]

ALGORITHMS = [(op, name) for op, table in COLLECTIVES.items() for name in table]
LATENCY_S, BYTES_PER_S = 1.5e-6, 7e9


def test_every_algorithm_has_a_closed_form_beside_it() -> None:
    assert [(op, name) for op, table in COSTS.items() for name in table] == ALGORITHMS


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16])
@pytest.mark.parametrize(("op", "name"), ALGORITHMS)
def test_the_closed_form_is_the_time_on_an_idle_star(
    op: str, name: str, num_ranks: int, star_seconds: StarSeconds
) -> None:
    options = {"num_chunks": 4} if name == "double-tree" else {}
    for num_bytes in (0.0, 4e3, 5e6):
        schedule = COLLECTIVES[op][name](num_ranks, num_bytes, **options)
        time_s = max(star_seconds(schedule, LATENCY_S, BYTES_PER_S))
        assert closed_form(op, name, num_ranks, num_bytes, LATENCY_S, BYTES_PER_S, **options) == pytest.approx(
            time_s, rel=1e-12, abs=1e-18
        )


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter"])
@pytest.mark.parametrize("dims", [(2, 3), (3, 1, 2), (2, 2, 2)])
def test_rings_of_a_torus_take_their_closed_form(op: str, dims: tuple[int, ...], star_seconds: StarSeconds) -> None:
    schedule = COLLECTIVES[op]["torus-ring"](math.prod(dims), 1e6, dims=dims)
    time_s = max(star_seconds(schedule, LATENCY_S, BYTES_PER_S))
    formula = closed_form(op, "torus-ring", math.prod(dims), 1e6, LATENCY_S, BYTES_PER_S, dims=dims)
    assert formula == pytest.approx(time_s, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"ranks_per_host": 1},
        {"ranks_per_host": 4},
        {"ranks_per_host": 5},
        {"ranks_per_host": 11},
        {"ranks_per_host": [5, 3, 4]},
        {"groups": [[0, 1, 2, 3, 4], [5, 11], [6, 7, 8], [9, 10]]},
    ],
)
def test_hosts_of_any_size_take_their_closed_form(options: dict[str, object], star_seconds: StarSeconds) -> None:
    time_s = max(star_seconds(COLLECTIVES["all-reduce"]["hierarchical"](12, 1e6, **options), LATENCY_S, BYTES_PER_S))
    formula = closed_form("all-reduce", "hierarchical", 12, 1e6, LATENCY_S, BYTES_PER_S, **options)
    assert formula == pytest.approx(time_s, rel=1e-12)


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
@pytest.mark.parametrize("num_chunks", [1, 3, 9])
def test_a_chain_takes_its_closed_form_for_any_pieces(op: str, num_chunks: int, star_seconds: StarSeconds) -> None:
    time_s = max(star_seconds(COLLECTIVES[op]["ring"](6, 1e6, num_chunks=num_chunks), LATENCY_S, BYTES_PER_S))
    formula = closed_form(op, "ring", 6, 1e6, LATENCY_S, BYTES_PER_S, num_chunks=num_chunks)
    assert formula == pytest.approx(time_s, rel=1e-12)


@pytest.mark.parametrize(
    ("num_ranks", "num_chunks"), [(2, 1), (4, 1), (8, 1), (16, 2), (9, 3), (13, 3), (19, 4), (33, 5)]
)
def test_a_double_tree_takes_its_closed_form(num_ranks: int, num_chunks: int, star_seconds: StarSeconds) -> None:
    schedule = COLLECTIVES["all-reduce"]["double-tree"](num_ranks, 1e6, num_chunks=num_chunks)
    time_s = max(star_seconds(schedule, LATENCY_S, BYTES_PER_S))
    formula = closed_form("all-reduce", "double-tree", num_ranks, 1e6, LATENCY_S, BYTES_PER_S, num_chunks=num_chunks)
    assert formula == pytest.approx(time_s, rel=1e-12)


def test_a_ragged_double_tree_has_no_closed_form() -> None:
    message = r"a double tree over 13 ranks has a closed form from 3 pieces on \(got num_chunks = 2\): simulate it"
    with pytest.raises(InputError, match=message):
        closed_form("all-reduce", "double-tree", 13, 8.0, LATENCY_S, BYTES_PER_S, num_chunks=2)


@pytest.mark.parametrize("num_ranks", [2, 3, 9, 16, 17, 100, 1024])
def test_both_trees_of_a_double_tree_are_as_high_as_the_logarithm(num_ranks: int) -> None:
    for tree in double_trees(num_ranks):
        assert tree.depth.max() == math.ceil(math.log2(num_ranks))
        assert (tree.parent < 0).sum() == 1
        children = [child for child in tree.parent.tolist() if child >= 0]
        assert max(children.count(rank) for rank in range(num_ranks)) <= 2


@pytest.mark.parametrize("num_ranks", [2, 6, 16, 100])
def test_for_even_ranks_no_rank_is_an_inner_node_of_both_trees(num_ranks: int) -> None:
    inside = [set(tree.parent.tolist()) - {-1} for tree in double_trees(num_ranks)]
    assert not inside[0] & inside[1]


def test_known_formulas() -> None:
    """Ring 2 (n - 1) (L + b / n / B), tree 2 log2(n) (L + b / B), server 2 (L + (n - 1) b / B); n 8, L 1, b / B 8."""
    ring, tree, server = (closed_form("all-reduce", name, 8, 16.0, 1.0, 2.0) for name in ("ring", "tree", "server"))
    assert (ring, tree, server) == (14 * (1 + 1), 6 * (1 + 8), 2 * (1 + 7 * 8))


def test_every_message_costs_its_overhead() -> None:
    without = closed_form("all-reduce", "ring", 5, 1e6, LATENCY_S, BYTES_PER_S)
    assert closed_form("all-reduce", "ring", 5, 1e6, LATENCY_S, BYTES_PER_S, overhead_s=1e-3) == pytest.approx(
        without + 8e-3
    )


@settings(deadline=None)
@given(
    algorithm=st.sampled_from([a for a in ALGORITHMS if a[1] != "double-tree"]),
    num_ranks=st.integers(1, 5000),
    num_bytes=st.floats(0, 1e12),
    speed=st.floats(1e-3, 1e3),
)
def test_a_common_factor_on_rate_and_latency_divides_the_time(
    algorithm: tuple[str, str], num_ranks: int, num_bytes: float, speed: float
) -> None:
    once = closed_form(*algorithm, num_ranks, num_bytes, LATENCY_S, BYTES_PER_S)
    assert closed_form(*algorithm, num_ranks, num_bytes, LATENCY_S / speed, BYTES_PER_S * speed) == pytest.approx(
        once / speed
    )


def test_a_torus_with_different_dimensions_adds_up_its_rings() -> None:
    """Along x 2 x 1 messages of 4 B at 1 B/s after 1 s, along y 2 x 2 messages of 4 / 3 B at 2 B/s after 3 s."""
    assert torus_ring_seconds((2, 3), 8.0, (1.0, 3.0), (1.0, 2.0)) == pytest.approx(2 * (1 + 4) + 4 * (3 + 4 / 3 / 2))


def test_a_torus_with_equal_dimensions_has_one_closed_form() -> None:
    unlike = torus_ring_seconds((4, 3, 2), 1e6, [LATENCY_S] * 3, [BYTES_PER_S] * 3)
    pattern = closed_form("all-reduce", "torus-ring", 24, 1e6, LATENCY_S, BYTES_PER_S, dims=(4, 3, 2))
    assert unlike == pytest.approx(pattern, rel=1e-12)


def test_the_formulas_of_firecaffe_grow_as_printed() -> None:
    assert server_seconds(53e6, 128, 5e9) == 53e6 * 128 / 5e9
    assert tree_seconds(53e6, 128, 5e9) == 2 * 53e6 * 7 / 5e9


@pytest.mark.parametrize("num_ranks", [2, 8, 64])
def test_our_tree_is_the_one_of_firecaffe_without_latency(num_ranks: int) -> None:
    assert closed_form("all-reduce", "tree", num_ranks, 53e6, 0.0, 5e9) == pytest.approx(
        tree_seconds(53e6, num_ranks, 5e9)
    )


@pytest.mark.parametrize(("latency_s", "rate"), [(-1.0, 1.0), (0.0, 0.0), (0.0, -1.0), (math.nan, 1.0)])
def test_a_closed_form_refuses_impossible_links(latency_s: float, rate: float) -> None:
    with pytest.raises(InputError, match="a closed form needs delays of 0 or more and a rate above 0"):
        closed_form("all-reduce", "ring", 2, 8.0, latency_s, rate)


def test_a_closed_form_of_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(InputError, match="no all-reduce algorithm is called 'rng'; did you mean 'ring'"):
        closed_form("all-reduce", "rng", 2, 8.0, 0.0, 1.0)
