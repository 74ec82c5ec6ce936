"""Idle time of a worker: waiting for slower ranks, or exposed communication."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.results import Timesheet, breakdown, confidence_interval, iteration_spans, parts, staleness_summary


def two_ranks() -> Timesheet:
    """Rank 0 computes 1 s and rank 1 computes 3 s; one bucket then takes 2 s; no update."""
    times = Timesheet.blank(2, 1, 1)
    times.begin_s[:] = 0.0
    times.forward_s[:, 0] = [0.5, 1.5]
    times.computed_s[:, 0] = [1.0, 3.0]
    times.ready_s[:, 0, 0] = times.enter_s[:, 0, 0] = [1.0, 3.0]
    times.left_s[:] = times.back_s[:] = 5.0
    times.awaited_s[:], times.awaited_rank[:] = 3.0, 1
    times.exchanged_s[:] = times.end_s[:] = 5.0
    return times


def test_waiting_lasts_until_the_slowest_rank_enters():
    split = parts(two_ranks())
    assert split["compute"][:, 0].tolist() == [1.0, 3.0]
    assert split["waiting"][:, 0].tolist() == [2.0, 0.0]
    assert split["communication_exposed"][:, 0].tolist() == [2.0, 2.0]


def test_the_parts_sum_to_the_iteration():
    assert sum(breakdown(parts(two_ranks()), 5.0).values()) == pytest.approx(5.0, abs=1e-12)


def test_an_unexplained_gap_is_a_bug():
    with pytest.raises(AssertionError):
        breakdown({"compute": np.array([1.0])}, 2.0)


def test_a_bucket_that_backward_hides_is_not_exposed():
    times = two_ranks()
    times.ready_s[:] = times.enter_s[:] = times.awaited_s[:] = 0.6
    times.left_s[:] = times.back_s[:] = 0.9
    times.exchanged_s[:] = times.end_s[:] = times.computed_s
    split = parts(times)
    assert split["communication_exposed"].tolist() == [[0.0], [0.0]]
    assert split["waiting"].tolist() == [[0.0], [0.0]]


def test_spans_name_the_awaited_rank():
    spans = iteration_spans(two_ranks(), 0, [("b", 1.0), ("a", 3.0)], ["all"], {1})
    rows = list(spans.rows())
    waiting = next(row for row in rows if row[0] == "waiting")
    assert waiting[1:5] == (0, 0, 1.0, 3.0)
    assert "rank 1" in waiting[6]
    backward = [row[3:6] for row in rows if row[0] == "backward" and row[1] == 1]
    assert backward == [(1.5, 1.875, "b"), (1.875, 3.0, "a")]


def test_staleness_counts_every_gradient():
    summary = staleness_summary([0, 1, 1, 4])
    assert summary["histogram"] == [[0, 1], [1, 2], [4, 1]]
    assert summary["max"] == 4


def test_the_interval_is_students():
    low, high = confidence_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), rel=1e-6)
