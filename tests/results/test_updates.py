"""The update log is small and has every gradient."""

from __future__ import annotations

import numpy as np

from clustersim.results import ALL_WORKERS, NO_RANK, Timesheet, Update, UpdateLog, WorkerIterations, window_spans


def test_a_gradient_takes_less_than_100_bytes():
    log = UpdateLog()
    for number in range(1000):
        log.add(Update(0.1 * number, 3, number, number + 1, 1.0, True))
    assert log.num_bytes / len(log) < 100


def test_updates_read_as_textbooks_write_them():
    assert str(Update(0.0, 3, 97, 101, 0.5, True)) == "W_101 = W_100 - 0.5 lr * dW_97 (worker 3, staleness 3)"
    assert str(Update(0.0, 3, 97, 101, 1.0, False)) == "dW_97 is dropped at W_100 (worker 3, staleness 3)"
    assert str(Update(0.0, ALL_WORKERS, 0, 1, 1.0, True)) == "W_1 = W_0 - lr * dW_0 (all workers, staleness 0)"


def test_a_log_comes_back_as_it_was():
    log = UpdateLog()
    log.add(Update(1.5, 0, 0, 1, 1.0, True))
    log.add(Update(2.5, 1, 0, 2, 0.5, False))
    assert UpdateLog.from_dict(log.to_dict()) == log
    assert log.to_dict()["staleness"] == [0, 1]
    assert log.part(1, 2).staleness.tolist() == [1]


def out_of_step() -> Timesheet:
    """Rank 0 has three iterations of 1 s; rank 1 has one of 2.5 s, of which it waits 0.5 s for rank 0."""
    times = Timesheet.blank(2, 3, 1)
    times.begin_s[:] = [[0, 1, 2], [0, np.nan, np.nan]]
    times.forward_s[:] = times.begin_s + np.array([[0.5], [1.0]])
    times.computed_s[:] = times.begin_s + np.array([[1.0], [2.0]])
    times.exchanged_s[:] = times.end_s[:] = times.begin_s + np.array([[1.0], [2.5]])
    times.ready_s[:] = times.enter_s[:] = times.computed_s[:, :, None]
    times.left_s[:] = times.back_s[:] = times.end_s[:, :, None]
    times.awaited_s[1, 0, 0], times.awaited_rank[1, 0, 0] = 2.5, 0
    return times


def test_worker_iterations_are_in_order_of_start_and_have_the_awaited_rank():
    times = out_of_step()
    cycles = WorkerIterations.of(times, ~np.isnan(times.end_s))
    rows = list(cycles.rows())
    assert [(row.rank, row.iteration) for row in rows] == [(0, 0), (1, 0), (0, 1), (0, 2)]
    assert [row.waiting_s for row in rows] == [0.0, 0.5, 0.0, 0.0]
    assert [row.awaited_rank for row in rows] == [NO_RANK, 0, NO_RANK, NO_RANK]
    assert WorkerIterations.from_dict(cycles.to_dict()) == cycles
    assert len(WorkerIterations.of(times, ~np.isnan(times.end_s), limit=2)) == 2


def test_a_window_shows_all_iterations_that_overlap_with_it():
    times = out_of_step()
    spans = window_spans(times, ~np.isnan(times.end_s), 0.5, [], ["all"], set())
    waiting = [row for row in spans.rows() if row[0] == "waiting"]
    assert [(row[1], row[3], row[4]) for row in waiting] == [(1, 2.0, 2.5)]
    assert "waited for rank 0" in waiting[0][6]
    assert sorted({row[1] for row in spans.rows()}) == [0, 1]
    assert max(row[4] for row in spans.rows()) == 3.0


def test_a_timesheet_grows_with_the_worker_ahead():
    times = Timesheet.blank(2, 1, 1)
    times.begin_s[0, 0] = 0.0
    times.extend_to(5)
    times.begin_s[0, 5] = 9.0
    assert times.begin_s[0, 0] == 0.0
    assert times.num_begun == 6
    assert np.isnan(times.enter_s[0, 3, 0])
