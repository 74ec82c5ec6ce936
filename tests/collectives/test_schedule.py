"""The properties of a schedule, however it is made."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.collectives import ALL_REDUCE, Schedule, Step, Transfer
from clustersim.errors import InputError


def test_a_schedule_of_single_messages_gives_them_back_step_by_step() -> None:
    given = [Transfer(1, 1, 2, 4.0, 3, 2, True), Transfer(0, 0, 1, 8.0)]
    schedule = Schedule.from_transfers(given)
    assert list(schedule.transfers()) == given[::-1]
    assert (schedule.num_ranks, schedule.num_steps, schedule.granularity, schedule.num_transfers()) == (3, 2, 5, 2)


def test_bare_tuples_are_messages_too() -> None:
    assert list(Schedule.from_transfers([(0, 0, 1, 8.0)]).transfers()) == [Transfer(0, 0, 1, 8.0)]


def test_a_step_without_messages_is_kept() -> None:
    schedule = Schedule.from_transfers([Transfer(2, 0, 1, 8.0)])
    assert [len(schedule.step(number).src) for number in range(3)] == [0, 0, 1]


def test_no_messages_are_a_schedule_of_one_rank() -> None:
    schedule = Schedule.from_transfers([])
    assert (schedule.num_ranks, schedule.num_steps) == (1, 0)


@pytest.mark.parametrize("row", [(-1, 0, 1, 8.0), (0, -1, 1, 8.0), (0, 0, -1, 8.0), (0, 0, 1, -8.0), (0, 0, 1, np.nan)])
def test_impossible_messages_are_refused(row: tuple[int, int, int, float]) -> None:
    with pytest.raises(InputError, match=r"of a transfer must be a .*number of at least 0 \(got "):
        Schedule.from_transfers([row])


def test_columns_that_are_the_same_for_all_may_be_single_numbers() -> None:
    step = Step.of([0, 1, 2], 3, 5, chunk=[7, 8, 9], reduce=True)
    assert [column.tolist() for column in step] == [[0, 1, 2], [3] * 3, [5.0] * 3, [7, 8, 9], [1] * 3, [True] * 3]
    assert [column.dtype for column in step] == [np.int64, np.int64, np.float64, np.int64, np.int64, np.bool_]


def test_schedules_are_concatenated() -> None:
    first = Schedule.from_transfers([Transfer(0, 0, 1, 1.0), Transfer(1, 1, 0, 2.0)])
    last = Schedule.from_transfers([Transfer(0, 0, 1, 3.0)])
    both = Schedule.concatenate([first, Schedule.idle(2), last])
    assert [(t.step, t.num_bytes) for t in both.transfers()] == [(0, 1.0), (1, 2.0), (2, 3.0)]


def test_schedules_of_different_shapes_are_not_concatenated() -> None:
    with pytest.raises(InputError, match=r"need the same \(ranks, chunks\) \(got \[\(2, 1\), \(3, 1\)\]\)"):
        Schedule.concatenate([Schedule.idle(2), Schedule.idle(3)])


def test_a_single_rank_has_no_step() -> None:
    with pytest.raises(InputError, match="an idle schedule has no step 0"):
        Schedule.idle(1).step(0)


def test_senders_and_receivers_of_a_repeated_pattern_stay_the_same_arrays() -> None:
    schedule = ALL_REDUCE["ring"](4, 8.0)
    assert schedule.step(0).src is schedule.step(5).src
    assert schedule.step(0).dst is schedule.step(5).dst


def test_a_transfer_may_be_a_mapping():
    row = {"step": 0, "src": 0, "dst": 1, "num_bytes": 8.0, "reduce": True}
    assert list(Schedule.from_transfers([row]).transfers()) == [Transfer(0, 0, 1, 8.0, reduce=True)]


@pytest.mark.parametrize("row", [{"step": 0}, (0, 1), {"step": 0, "src": 0, "dst": 1, "bytes": 8.0}])
def test_an_invalid_transfer_is_refused_with_the_fields(row):
    with pytest.raises(InputError, match="step, src, dst, num_bytes"):
        Schedule.from_transfers([row])
