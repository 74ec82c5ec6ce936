"""MicroBatchCycles are left out only when all that a rank does, and all that it has begun, comes again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
import pytest
import simpy

from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCounts, SkippedCycles

Cycle = Callable[[int], float]


def run(
    num_cycles: int, cycles_s: Sequence[Cycle], beside_s: Cycle = lambda cycle: 0.25, early_s: float = 0.0
) -> tuple[MicroBatchCycles, list[SkippedCycles], list[int]]:
    """Let ranks go through cycles, in which each does a thing for so long and lets another go on beside it.

    Return the cycles, what was left out, and how many cycles each rank has played.
    """
    env = simpy.Environment()
    told: list[SkippedCycles] = []
    cycles = MicroBatchCycles(
        env, dict.fromkeys(range(len(cycles_s)), num_cycles), lambda: np.array([2.0 * env.now]), told
    )
    played = [0] * len(cycles_s)

    def rank(number: int, cycle_s: Cycle) -> Generator[simpy.Event, None, None]:
        runner = cycles.runners[number]
        while runner.num_left:
            runner.num_left -= 1
            if not cycles.is_over:
                cycles.begin(number, RankCounts(np.array([env.now]), played[number]))
            runner.note()
            runner.watch(env.timeout(beside_s(played[number])))
            yield env.timeout(cycle_s(played[number]))
            played[number] += 1
        cycles.end()

    if early_s:
        cycles.watch_early(env.timeout(early_s))
    for number, cycle_s in enumerate(cycles_s):
        env.process(rank(number, cycle_s))
    env.run()
    return cycles, told, played


def test_ranks_that_repeat_themselves_leave_out_all_cycles_but_four_and_the_last() -> None:
    cycles, told, played = run(20, [lambda cycle: 0.5, lambda cycle: 0.5])
    assert played == [5, 5]
    assert cycles.num_left_out == 15
    [(at_s, seconds, link_bytes)] = told
    assert (at_s, seconds, link_bytes.tolist()) == (1.5, 7.5, [15.0])
    before, after = cycles.runners[1].repeated or pytest.fail("nothing was counted")
    assert (after.counted - before.counted, after.num_rows - before.num_rows) == (0.5, 1)


@pytest.mark.parametrize(
    ("cycles_s", "beside_s", "early_s"),
    [
        ([lambda cycle: 0.5, lambda cycle: 0.5 + 1e-9 * cycle], lambda cycle: 0.25, 0.0),
        ([lambda cycle: 0.5, lambda cycle: 0.25], lambda cycle: 0.25, 0.0),
        ([lambda cycle: 0.5], lambda cycle: 0.25 + 0.125 * cycle, 0.0),
        ([lambda cycle: 0.5], lambda cycle: 1.25, 0.0),
        ([lambda cycle: 0.5], lambda cycle: 0.25, 9.0),
    ],
    ids=["slower and slower", "apart", "more and more beside it", "older than a cycle", "something from before"],
)
def test_everything_is_played_that_may_be_different(cycles_s: Sequence[Cycle], beside_s: Cycle, early_s: float) -> None:
    cycles, told, played = run(12, cycles_s, beside_s, early_s)
    assert not told
    assert cycles.num_left_out == 0
    assert played == [12] * len(cycles_s)


def test_what_was_begun_before_cycles_is_waited_for() -> None:
    _, told, played = run(20, [lambda cycle: 0.5], early_s=3.25)
    assert [gap.at_s for gap in told] == [4.5]
    assert played == [11]


def test_cycles_that_are_too_few_are_played() -> None:
    assert run(4, [lambda cycle: 0.5])[2] == [4]
    assert run(6, [lambda cycle: 0.5])[2] == [5]
