"""Run-length encoded steps are those of a schedule with explicit steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives import Schedule, Step
from clustersim.collectives.chain import chain_broadcast, chain_reduce
from clustersim.collectives.run_length import RunLengthSteps


def chain(num_ranks: int, num_bytes: float, pieces: int, order: list[int], down: bool) -> list[Step]:
    """Return the explicit steps of a chain: hop h sends piece `step - h`, from the root of `order` or to it."""
    order = order[order.index(0) :] + order[: order.index(0)]
    order = order if down else order[::-1]
    steps = []
    for number in range(pieces + num_ranks - 2):
        hops = [hop for hop in range(num_ranks - 1) if 0 <= number - hop < pieces]
        ends = [order[hop] for hop in hops], [order[hop + 1] for hop in hops]
        steps.append(Step.of(*ends, num_bytes / pieces, [number - hop for hop in hops], reduce=not down))
    return steps


def rows(step: Step) -> list[tuple[float, ...]]:
    return list(zip(*(column.tolist() for column in step), strict=True))


@pytest.mark.parametrize(("make", "down"), [(chain_broadcast, True), (chain_reduce, False)])
@given(data=st.data())
def test_parallel_chains_are_those_of_explicit_steps(make: object, down: bool, data: st.DataObject) -> None:
    num_ranks, pieces = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 6))
    orders = data.draw(st.lists(st.permutations(range(num_ranks)), min_size=1, max_size=4))
    schedule = (chain_broadcast if make is chain_broadcast else chain_reduce)(num_ranks, 24.0, pieces, orders)
    chains = [chain(num_ranks, 24.0 / len(orders), pieces, list(order), down) for order in orders]
    for number in range(schedule.num_steps):
        ranges = [
            (src, dst, size, own * pieces + chunk, num, adds)
            for own, steps in enumerate(chains)
            for src, dst, size, chunk, num, adds in rows(steps[number])
        ]
        columns = [np.array(column) for column in zip(*ranges, strict=True)]
        assert rows(schedule.ranges(number)) == ranges
        assert rows(schedule.step(number)) == rows(Step(*columns).coalesced())
    assert schedule.num_steps == pieces + num_ranks - 2
    assert schedule.num_transfers() == replace(schedule, runs=None).num_transfers()


@given(data=st.data())
def test_coalesced_runs_are_coalesced_steps(data: st.DataObject) -> None:
    """Whatever the messages, and however their steps overlap."""
    num = data.draw(st.integers(1, 12))
    numbers = [data.draw(st.lists(st.integers(0, 4), min_size=num, max_size=num)) for _ in range(5)]
    src, dst, first, length, chunk = (np.array(column) for column in numbers)
    columns = Step.of(src, dst, 1.0 + np.arange(num), chunk, reduce=src > dst)
    runs = RunLengthSteps(columns, first, first + 1 + length)
    schedule = runs.schedule(5, 10, 20)
    different = 0
    for number in range(schedule.num_steps):
        assert rows(schedule.step(number)) == rows(runs.step(number).coalesced())
        if not number or schedule.pattern(number) != schedule.pattern(number - 1):
            different += len(schedule.step(number).src)
    assert schedule.runs is not None
    assert schedule.runs.num_changed() == different


def test_rows_of_a_chain_grow_with_its_ranks_and_not_with_its_pieces() -> None:
    def num_rows(num_ranks: int, pieces: int) -> int:
        rings = [range(num_ranks), [*range(2, num_ranks), 0, 1]]
        schedule: Schedule = chain_broadcast(num_ranks, 1e6, pieces, rings)
        assert schedule.runs is not None
        return len(schedule.runs.first)

    assert num_rows(64, 1000) == num_rows(64, 100)
    assert num_rows(128, 100) < 2.5 * num_rows(64, 100)
