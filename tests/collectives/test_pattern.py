"""Equal steps of a schedule are known without making them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from clustersim.collectives import ALL_REDUCE, COLLECTIVES, Schedule, Step, Transfer, options_of
from clustersim.collectives.chain import chain_broadcast

ALGORITHMS = [(op, name) for op, table in COLLECTIVES.items() for name in table]
SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16, 24]
BYTES = 20e6  # pieces of 512 KiB are several
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dims": [{"dims": (2, 3, 4)}],
    "ranks_per_host": [{"ranks_per_host": 4}, {"ranks_per_host": 7}],
    "groups": [{"groups": [range(0, 24, 2), range(1, 24, 2)]}],
    "num_chunks": [{"num_chunks": 3}, {"num_chunks": 60}],
    "piece_bytes": [{"piece_bytes": 3e6}],
    "lines": [{"lines": True}, {"lines": True, "piece_bytes": 1024}],
    "num_phases": [{"num_phases": 1}, {"num_phases": 5}],
    "rings": [{"rings": [range(24), [*range(5, 24), *range(5)], range(23, -1, -1)]}],
    "chains": [{"chains": [[range(9), range(9, 24)], [range(8, -1, -1), range(23, 8, -1)]]}],
}


def columns(step: Step) -> list[list[float]]:
    return [column.tolist() for column in (step.src, step.dst, step.num_bytes, step.reduce)]


def assert_equal_patterns_are_equal_columns(schedule: Schedule) -> None:
    first: dict[Any, list[list[float]]] = {}
    for number in range(schedule.num_steps):
        found = columns(schedule.step(number))
        assert first.setdefault(schedule.pattern(number), found) == found


@pytest.mark.parametrize(("op", "name"), ALGORITHMS)
def test_steps_of_one_pattern_have_the_same_senders_receivers_sizes_and_sums(op: str, name: str) -> None:
    algorithm = COLLECTIVES[op][name]
    for num_ranks in SIZES:
        assert_equal_patterns_are_equal_columns(algorithm(num_ranks, BYTES))
    for option in options_of(algorithm):
        for values in OPTIONS[option]:
            assert_equal_patterns_are_equal_columns(algorithm(24, BYTES, **values))


def patterns(schedule: Schedule) -> list[int]:
    """Return how often each pattern comes, in the order of the first time."""
    return list(Counter(schedule.pattern(number) for number in range(schedule.num_steps)).values())


@pytest.mark.parametrize(
    ("name", "num_ranks", "options", "expected"),
    [
        ("ring", 4096, {}, [4095, 4095]),
        ("torus-ring", 4096, {"dims": (16, 16, 16)}, [15] * 6),
        ("hierarchical", 4096, {"ranks_per_host": 8}, [7, 511, 511, 7]),
        ("halving-doubling", 4096, {}, [1] * 24),
        ("doubling", 4096, {}, [1] * 12),
        ("tree", 4096, {}, [1] * 24),
    ],
)
def test_repeated_steps_have_one_pattern(
    name: str, num_ranks: int, options: dict[str, Any], expected: list[int]
) -> None:
    assert patterns(ALL_REDUCE[name](num_ranks, 1e8, **options)) == expected


def test_a_full_pipeline_is_one_pattern() -> None:
    assert patterns(chain_broadcast(5, 1e8, num_chunks=100)) == [1, 1, 1, 97, 1, 1, 1]
    assert patterns(ALL_REDUCE["double-tree"](8, 1e8, num_chunks=100)) == [1, 1, 98, 1, 1] * 2


def test_hosts_of_different_sizes_repeat_no_step_within() -> None:
    assert patterns(ALL_REDUCE["hierarchical"](7, 1e8, ranks_per_host=4)) == [1, 1, 1, 1, 1, 1, 1, 1]


def test_asking_for_patterns_makes_no_step() -> None:
    def refuse(number: int) -> Step:
        raise AssertionError(f"step {number} was made")

    part = Schedule(4, 5, refuse, pattern=lambda step: "same")
    both = Schedule.concatenate([part, part])
    assert patterns(both) == [5, 5]
    ring = ALL_REDUCE["ring"](16_384, 1e8)
    assert len({ring.pattern(number) for number in range(ring.num_steps)}) == 2


def test_steps_of_a_bare_schedule_all_differ() -> None:
    def step(number: int) -> Step:
        return Step.of([0], [1], 8.0)

    assert patterns(Schedule(2, 3, step)) == [1, 1, 1]


def test_equal_explicit_steps_are_found_for_any_chunks() -> None:
    again = [Transfer(step, src, 1 - src, 8.0, chunk=step % 2) for step in range(3) for src in range(2)]
    others = [
        Transfer(3, 0, 1, 8.0),
        Transfer(4, 0, 1, 9.0),
        Transfer(5, 1, 0, 9.0),
        Transfer(6, 1, 0, 9.0, reduce=True),
    ]
    schedule = Schedule.from_transfers([*again, *others])
    assert patterns(schedule) == [3, 1, 1, 1, 1]
    assert_equal_patterns_are_equal_columns(schedule)


def test_a_step_object_may_stand_several_times() -> None:
    step = Step.of(np.array([0, 1]), np.array([1, 0]), 8.0)
    assert patterns(Schedule.from_steps(2, [step, step, Step.of([0], [1], 8.0), step])) == [3, 1]
