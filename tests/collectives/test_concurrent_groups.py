"""Concurrent groups: each does what it would do alone."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Schedule, play
from clustersim.collectives.concurrent_groups import concurrent_groups
from clustersim.collectives.schedule import Transfer
from clustersim.network import Network
from clustersim.topology import load_topology
from tests.network.clusters import star

KINDS = [
    *((ALL_REDUCE, name) for name in ("double-tree", "doubling", "halving-doubling", "ring", "tree")),
    (ALL_GATHER, "ring"),
    (REDUCE_SCATTER, "ring"),
]


def joined(parts: list[Schedule]) -> Schedule:
    schedule = concurrent_groups(parts)
    assert schedule is not None
    return schedule


@pytest.mark.parametrize("num_ranks", [2, 4, 5])
@pytest.mark.parametrize(("table", "name"), KINDS)
def test_each_group_ends_as_if_alone(table, name: str, num_ranks: int) -> None:
    one = table[name](num_ranks, 8.0)
    buffers = np.random.default_rng(0).random((3 * num_ranks, one.granularity))
    apart = [play(one, own) for own in np.split(buffers, 3)]
    assert play(joined([one] * 3), buffers) == pytest.approx(np.concatenate(apart))


@pytest.mark.parametrize(("table", "name"), KINDS)
def test_its_messages_are_those_of_all_groups_step_by_step(table, name: str) -> None:
    parts = [table[name](4, 8.0), table[name](4, 16.0)]
    moved = [
        each._replace(src=each.src + 4 * number, dst=each.dst + 4 * number)
        for number, part in enumerate(parts)
        for each in part.transfers()
    ]
    by_step = sorted(moved, key=lambda each: each.step)
    coalesced = joined(parts)
    assert list(coalesced.transfers()) == by_step
    assert coalesced.num_transfers() == len(by_step)


def test_steps_are_equal_if_they_are_in_all_groups() -> None:
    parts = [ALL_REDUCE["ring"](4, 8.0)] * 2
    coalesced = joined(parts)
    assert len({coalesced.pattern(number) for number in range(coalesced.num_steps)}) == 2  # that add, and that do not


def test_groups_with_different_steps_are_not_joined() -> None:
    assert concurrent_groups([ALL_REDUCE["ring"](4, 8.0), ALL_REDUCE["ring"](3, 8.0)]) is None


def test_a_slow_group_does_not_delay_another() -> None:
    """Of two pairs that exchange 8 bytes at 1 byte/s, the second one enters 100 s later."""
    part = Schedule.from_transfers([Transfer(0, 0, 1, 8.0), Transfer(1, 1, 0, 8.0)])
    env = simpy.Environment()
    network = Network(env, load_topology(star(4, 1.0, 0.0)))
    played = network.play(joined([part, part]), range(4), enter_s=[0.0, 0.0, 100.0, 100.0])
    env.run(played)
    assert played.value.end_s.tolist() == pytest.approx([16.0, 16.0, 116.0, 116.0])
