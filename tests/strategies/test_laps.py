"""Laps are left out only when all that a rank does, and all that it has begun, comes again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
import pytest
import simpy

from clustersim.strategies.laps import Laps, LeftOut, Tally

Lap = Callable[[int], float]


def run(
    num_laps: int, laps_s: Sequence[Lap], beside_s: Lap = lambda lap: 0.25, early_s: float = 0.0
) -> tuple[Laps, list[LeftOut], list[int]]:
    """Let ranks go through laps, in which each does a thing for so long and lets another go on beside it.

    Return the laps, what was left out, and how many laps each rank has played.
    """
    env = simpy.Environment()
    told: list[LeftOut] = []
    laps = Laps(env, dict.fromkeys(range(len(laps_s)), num_laps), lambda: np.array([2.0 * env.now]), told)
    played = [0] * len(laps_s)

    def rank(number: int, lap_s: Lap) -> Generator[simpy.Event, None, None]:
        runner = laps.runners[number]
        while runner.num_left:
            runner.num_left -= 1
            if not laps.is_over:
                laps.begin(number, Tally(np.array([env.now]), played[number]))
            runner.note()
            runner.watch(env.timeout(beside_s(played[number])))
            yield env.timeout(lap_s(played[number]))
            played[number] += 1
        laps.end()

    if early_s:
        laps.watch_early(env.timeout(early_s))
    for number, lap_s in enumerate(laps_s):
        env.process(rank(number, lap_s))
    env.run()
    return laps, told, played


def test_ranks_that_repeat_themselves_leave_out_all_laps_but_four_and_the_last() -> None:
    laps, told, played = run(20, [lambda lap: 0.5, lambda lap: 0.5])
    assert played == [5, 5]
    assert laps.num_left_out == 15
    [(at_s, seconds, link_bytes)] = told
    assert (at_s, seconds, link_bytes.tolist()) == (1.5, 7.5, [15.0])
    before, after = laps.runners[1].repeated or pytest.fail("nothing was counted")
    assert (after.counted - before.counted, after.num_rows - before.num_rows) == (0.5, 1)


@pytest.mark.parametrize(
    ("laps_s", "beside_s", "early_s"),
    [
        ([lambda lap: 0.5, lambda lap: 0.5 + 1e-9 * lap], lambda lap: 0.25, 0.0),
        ([lambda lap: 0.5, lambda lap: 0.25], lambda lap: 0.25, 0.0),
        ([lambda lap: 0.5], lambda lap: 0.25 + 0.125 * lap, 0.0),
        ([lambda lap: 0.5], lambda lap: 1.25, 0.0),
        ([lambda lap: 0.5], lambda lap: 0.25, 9.0),
    ],
    ids=["slower and slower", "apart", "more and more beside it", "older than a lap", "something from before"],
)
def test_everything_is_played_that_may_be_different(laps_s: Sequence[Lap], beside_s: Lap, early_s: float) -> None:
    laps, told, played = run(12, laps_s, beside_s, early_s)
    assert not told
    assert laps.num_left_out == 0
    assert played == [12] * len(laps_s)


def test_what_was_begun_before_laps_is_waited_for() -> None:
    _, told, played = run(20, [lambda lap: 0.5], early_s=3.25)
    assert [gap.at_s for gap in told] == [4.5]
    assert played == [11]


def test_laps_that_are_too_few_are_played() -> None:
    assert run(4, [lambda lap: 0.5])[2] == [4]
    assert run(6, [lambda lap: 0.5])[2] == [5]
