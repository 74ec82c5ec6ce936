"""Cycles are skipped only when everything that all ranks do, and have begun in the background, repeats itself."""

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
    """Run ranks through cycles: each runs an operation for `cycles_s`, and one for `beside_s` in the background.

    Return the cycles, those that were skipped, and how many cycles of each rank were simulated.
    """
    env = simpy.Environment()
    skipped: list[SkippedCycles] = []
    cycles = MicroBatchCycles(
        env, dict.fromkeys(range(len(cycles_s)), num_cycles), lambda: np.array([2.0 * env.now]), skipped
    )
    simulated = [0] * len(cycles_s)

    def rank(number: int, cycle_s: Cycle) -> Generator[simpy.Event, None, None]:
        rank_cycles = cycles.rank_cycles[number]
        while rank_cycles.num_left:
            rank_cycles.num_left -= 1
            if not cycles.is_over:
                cycles.begin(number, RankCounts(np.array([env.now]), simulated[number]))
            rank_cycles.note_op()
            rank_cycles.watch(env.timeout(beside_s(simulated[number])))
            yield env.timeout(cycle_s(simulated[number]))
            simulated[number] += 1
        cycles.end()

    if early_s:
        cycles.watch_early(env.timeout(early_s))
    for number, cycle_s in enumerate(cycles_s):
        env.process(rank(number, cycle_s))
    env.run()
    return cycles, skipped, simulated


def test_ranks_that_repeat_themselves_skip_all_cycles_but_four_and_the_last() -> None:
    cycles, skipped, simulated = run(20, [lambda cycle: 0.5, lambda cycle: 0.5])
    assert simulated == [5, 5]
    assert cycles.num_skipped == 15
    [(at_s, seconds, link_bytes)] = skipped
    assert (at_s, seconds, link_bytes.tolist()) == (1.5, 7.5, [15.0])
    before, after = cycles.rank_cycles[1].repeated or pytest.fail("nothing was skipped")
    assert (after.counted - before.counted, after.num_entries - before.num_entries) == (0.5, 1)


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
def test_all_cycles_are_simulated_that_may_be_different(
    cycles_s: Sequence[Cycle], beside_s: Cycle, early_s: float
) -> None:
    cycles, skipped, simulated = run(12, cycles_s, beside_s, early_s)
    assert not skipped
    assert cycles.num_skipped == 0
    assert simulated == [12] * len(cycles_s)


def test_cycles_are_not_skipped_before_earlier_operations_have_ended() -> None:
    _, skipped, simulated = run(20, [lambda cycle: 0.5], early_s=3.25)
    assert [gap.at_s for gap in skipped] == [4.5]
    assert simulated == [11]


def test_too_few_cycles_are_simulated() -> None:
    assert run(4, [lambda cycle: 0.5])[2] == [4]
    assert run(6, [lambda cycle: 0.5])[2] == [5]
