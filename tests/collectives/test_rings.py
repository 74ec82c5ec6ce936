"""Several rings, chains or pairs of trees at once: the result is that of one, and each hop has one message."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives import COLLECTIVES, Schedule, closed_form, play
from clustersim.errors import InputError

RINGS = [("all-gather", "ring"), ("all-reduce", "ring"), ("reduce-scatter", "ring")]
CHAINS = [("broadcast", "ring"), ("reduce", "ring")]
CHAINS_OF_HOSTS = [
    [[0, 1, 2], [3, 4], [5, 6, 7]],
    [[1, 2, 0], [4, 3], [7, 6, 5]],
    [[2, 1, 0], [3, 4], [6, 5, 7]],
]


@given(data=st.data(), collective=st.sampled_from(RINGS + CHAINS), num_ranks=st.integers(2, 9))
def test_several_rings_end_as_one_does(data: st.DataObject, collective: tuple[str, str], num_ranks: int) -> None:
    op, name = collective
    order = st.permutations(range(num_ranks))
    rings = data.draw(st.lists(order, min_size=1, max_size=4))
    buffers = np.random.default_rng(0).integers(-99, 99, (num_ranks, num_ranks * len(rings)))
    one = play(COLLECTIVES[op][name](num_ranks, 8.0), buffers)
    several = play(COLLECTIVES[op][name](num_ranks, 8.0, rings=rings), buffers)
    if op == "reduce-scatter":  # a rank has its own chunk of the sum; the other chunks are undefined
        width = len(rings)
        one, several = (
            np.array([after[rank, rank * width : (rank + 1) * width] for rank in range(num_ranks)])
            for after in (one, several)
        )
    if op == "reduce":
        one, several = one[:1], several[:1]
    if op == "all-gather":
        mine = np.kron(np.eye(num_ranks, dtype=int), np.ones((1, len(rings)), dtype=int))
        several = play(COLLECTIVES[op][name](num_ranks, 8.0, rings=rings), buffers * mine)
        one = np.tile((buffers * mine).sum(axis=0), (num_ranks, 1))
    assert np.array_equal(one, several)


@pytest.mark.parametrize("num_chunks", [1, 3])
@pytest.mark.parametrize("num_channels", [1, 2, 3])
def test_trees_over_hosts_end_with_the_sum(num_channels: int, num_chunks: int) -> None:
    chains = CHAINS_OF_HOSTS[:num_channels]
    buffers = np.random.default_rng(0).integers(-99, 99, (8, 50))
    schedule = COLLECTIVES["all-reduce"]["double-tree"](8, 8.0, num_chunks=num_chunks, chains=chains)
    assert np.array_equal(play(schedule, buffers), np.tile(buffers.sum(axis=0), (8, 1)))


def test_in_trees_over_hosts_only_the_first_of_a_chain_exchanges_with_other_hosts() -> None:
    schedule = COLLECTIVES["all-reduce"]["double-tree"](8, 8.0, num_chunks=2, chains=CHAINS_OF_HOSTS[:1])
    hosts = [0, 0, 0, 1, 1, 2, 2, 2]
    assert {end for t in schedule.transfers() if hosts[t.src] != hosts[t.dst] for end in (t.src, t.dst)} == {0, 3, 5}


def sent(schedule: Schedule) -> dict[tuple[int, int, int], float]:
    """Return the bytes of every step from rank to rank."""
    total: dict[tuple[int, int, int], float] = defaultdict(float)
    for number in range(schedule.num_steps):
        step = schedule.ranges(number)
        for src, dst, num_bytes in zip(*(column.tolist() for column in step[:3]), strict=True):
            total[number, src, dst] += num_bytes
    return total


@pytest.mark.parametrize(
    ("op", "name", "options"),
    [
        *((*both, {"rings": [range(8), [3, 4, 5, 6, 7, 0, 1, 2], range(7, -1, -1)]}) for both in RINGS + CHAINS),
        ("all-reduce", "double-tree", {"chains": CHAINS_OF_HOSTS}),
    ],
)
def test_what_one_rank_sends_another_in_a_step_is_one_message(op: str, name: str, options: dict[str, Any]) -> None:
    schedule = COLLECTIVES[op][name](8, 1e9, **options)
    messages = list(schedule.transfers())
    assert len({(t.step, t.src, t.dst) for t in messages}) == len(messages)
    assert {(t.step, t.src, t.dst): t.num_bytes for t in messages} == pytest.approx(sent(schedule))
    assert any(t.num_chunks > 1 for t in messages)


@pytest.mark.parametrize(("op", "name"), RINGS)
def test_on_a_star_several_rings_take_as_long_as_one(op: str, name: str, star_seconds: Any) -> None:
    rings = [[0, 1, 2, 3, 4], [2, 3, 4, 0, 1]]
    seconds = max(star_seconds(COLLECTIVES[op][name](5, 1e6, rings=rings), 1e-6, 7e9))
    assert closed_form(op, name, 5, 1e6, 1e-6, 7e9, rings=rings) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("rings", [[[0, 1, 2], [0, 1, 1]], [[0, 1]], [[1, 2, 3]]])
def test_a_ring_without_every_rank_is_refused(rings: list[list[int]]) -> None:
    with pytest.raises(InputError, match="each of the rings must have every rank from 0 to 2 once"):
        COLLECTIVES["all-reduce"]["ring"](3, 8.0, rings=rings)


def test_an_empty_list_of_rings_is_refused() -> None:
    with pytest.raises(InputError, match="at least one of the rings"):
        COLLECTIVES["broadcast"]["ring"](3, 8.0, rings=[])


@pytest.mark.parametrize("chains", [[[[0, 1], [1, 2]]], [[[0, 1, 2], []]], [[[0, 1]]]])
def test_chains_without_every_rank_are_refused(chains: list[list[list[int]]]) -> None:
    with pytest.raises(InputError, match="the chains of a channel must have every rank from 0 to 2 once"):
        COLLECTIVES["all-reduce"]["double-tree"](3, 8.0, chains=chains)
