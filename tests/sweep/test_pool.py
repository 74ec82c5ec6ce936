"""A pool gives what one process gives, in the order of what it was asked."""

from __future__ import annotations

import os
import time

import pytest

from clustersim.sweep.pool import Pool, num_cores


def late(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def who(number: int) -> int:
    return os.getpid()


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def test_answers_come_in_the_order_of_the_items_whoever_is_done_first():
    told: list[int] = []
    with Pool(2) as pool:
        assert pool.map(late, [0.3, 0.0, 0.1], lambda number, how_many: told.append(how_many)) == [0.3, 0.0, 0.1]
    assert told == [1, 2, 3]


def test_one_process_or_one_item_is_done_here():
    with Pool(1) as pool:
        assert pool.map(who, [1, 2]) == [os.getpid()] * 2
    with Pool(2) as pool:
        assert pool.map(who, [1]) == [os.getpid()]


def test_the_processes_serve_several_rounds():
    with Pool(2) as pool:
        first, second = set(pool.map(who, range(8))), set(pool.map(who, range(8)))
    assert os.getpid() not in first | second
    assert len(first | second) <= 2


def test_what_goes_wrong_in_a_process_goes_wrong_here():
    with pytest.raises(ValueError, match=r"no [12]"), Pool(2) as pool:
        pool.map(fail, [1, 2])


def test_there_is_a_core():
    assert num_cores() >= 1
