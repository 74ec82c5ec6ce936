"""The last rank of an iteration, the causes of its delay, and the lanes of the figure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from clustersim.report.lateness import find_last_ranks, iteration_table
from clustersim.report.straggler_causes import cause_shares, draw_straggler_causes, straggler_causes_data
from clustersim.report.stragglers import draw_stragglers, stragglers_data
from tests.report.worker_runs import alone, in_lockstep, run_of, sweep_of

STEADY = [[1.0, 1.0, 1.5, 1.0]] * 6
"""Rank 2 is half as slow again in each of six iterations."""

ONCE = [[1.0] * 4] * 3 + [[1.0, 3.0, 1.0, 1.0]] + [[1.0] * 4] * 3
"""Rank 1 is slow in iteration 3 alone."""


def lasts_of(compute_s, hosts=(), late=None):
    return find_last_ranks(iteration_table(run_of(in_lockstep(compute_s, late))), hosts)


def test_a_rank_that_is_always_slow_is_last_by_its_device():
    last_ranks = lasts_of(STEADY)
    assert [last.rank for last in last_ranks] == [2] * 6
    for last in last_ranks:
        assert last.late_s == pytest.approx({"device": 0.5, "host": 0.0, "jitter": 0.0, "network": 0.0})
        assert last.compute_excess == pytest.approx(0.5)
        assert last.waited_s == pytest.approx(3 * 0.5)


def test_a_rank_that_is_slow_once_is_last_by_chance():
    (last,) = lasts_of(ONCE)
    assert (last.iteration, last.rank, last.cause) == (3, 1, "jitter")
    assert last.late_s["jitter"] == pytest.approx(2.0)


def test_a_host_whose_gpus_are_all_slow_is_the_cause():
    hosts = ["a", "a", "a", "a", "b", "b"]
    compute_s = [[1.0, 1.0, 1.0, 1.0, 1.4, 1.5]] * 5
    for last in lasts_of(compute_s, hosts):
        assert last.rank == 5
        assert last.late_s == pytest.approx({"host": 0.4, "device": 0.1, "jitter": 0.0, "network": 0.0})


def test_a_host_that_is_slow_once_is_the_cause_that_once():
    hosts = ["a", "a", "a", "b", "b"]
    compute_s = [[1.0] * 5] * 4 + [[1.0, 1.0, 1.0, 2.0, 2.5]]
    (last,) = lasts_of(compute_s, hosts)
    assert last.late_s == pytest.approx({"host": 1.0, "jitter": 0.5, "device": 0.0, "network": 0.0})


def test_on_one_host_nothing_is_the_hosts():
    assert all(last.late_s["host"] == 0.0 for last in lasts_of(STEADY, ["a"] * 4))


def test_a_late_start_is_the_networks():
    late = [[0.0, 0.0, 0.0, 0.7]] * 5
    last_ranks = lasts_of([[1.0] * 4] * 5, late=late)
    assert [last.cause for last in last_ranks] == ["network"] * 5
    assert last_ranks[0].late_s["network"] == pytest.approx(0.7)


def test_causes_sum_to_the_delay_whatever_the_times():
    rng = np.random.default_rng(1)
    compute_s = 1.0 + rng.gamma(2.0, 0.2, (9, 6))
    found = iteration_table(run_of(in_lockstep(compute_s.tolist())))
    hosts = ["a", "a", "b", "b", "c", "c"]
    for last in find_last_ranks(found, hosts):
        ready_s = found.computed_s[:, last.iteration]
        delay_s = ready_s[last.rank] - np.median(ready_s)
        assert sum(last.late_s.values()) == pytest.approx(delay_s)


def test_shares_of_causes_sum_to_one_and_weigh_the_waiting():
    assert cause_shares(lasts_of(STEADY)) == pytest.approx({"device": 1.0, "host": 0.0, "jitter": 0.0, "network": 0.0})
    mixed = cause_shares(lasts_of(STEADY) + lasts_of(ONCE))
    assert sum(mixed.values()) == pytest.approx(1.0)
    assert mixed["jitter"] == pytest.approx(6.0 / (6.0 + 6 * 1.5))


def test_there_is_no_last_rank_where_each_waits_for_a_neighbour():
    many = in_lockstep([[1.0] * 8] * 3)
    many.awaited_rank[:] = [(rank + 1) % 8 for rank in many.rank]
    many.waiting_s[:] = [1.0] * len(many)
    assert find_last_ranks(iteration_table(run_of(many))) == ()
    run = run_of(many)
    assert straggler_causes_data(sweep_of(run), run) is None
    assert stragglers_data(sweep_of(run), run).title.startswith("No single straggler")


def test_bars_of_an_iteration_fill_it_and_waiting_has_its_rank_and_cause():
    run = run_of(in_lockstep(STEADY))
    data = stragglers_data(sweep_of(run), run)
    for rank in range(4):
        bars = sorted((bar for bar in data.bars if bar.rank == rank), key=lambda bar: bar.start_s)
        assert bars[0].start_s == 0.0
        assert bars[-1].end_s == pytest.approx(data.length_s)
        assert all(one.end_s == pytest.approx(two.start_s) for one, two in pairwise(bars))
    why = {bar.why for bar in data.bars if bar.kind == "waiting"}
    assert why == {"longest for rank 2, which computed 50\u202f% longer than the median: its GPU is always slow"}
    assert "(awaited in 6 of 6" in data.title


def test_the_last_rank_is_marked_when_it_is_ready():
    run = run_of(in_lockstep(STEADY))
    data = stragglers_data(sweep_of(run), run)
    assert [(last.rank, last.iteration) for last, _ in data.last_ranks] == [(2, number) for number in range(6)]
    assert [ready_s for _, ready_s in data.last_ranks] == pytest.approx([1.5 + 1.6 * number for number in range(6)])


def test_alternating_last_ranks_are_no_straggler():
    compute_s = [[1.5 if rank == number % 4 else 1.0 for rank in range(4)] for number in range(8)]
    run = run_of(in_lockstep(compute_s))
    assert "No single straggler: 4 different ranks" in stragglers_data(sweep_of(run), run).title


def test_of_many_ranks_one_that_is_last_once_is_no_straggler():
    compute_s = np.ones((4, 64))
    compute_s[range(4), range(4)] = 1.5
    run = run_of(in_lockstep(compute_s.tolist()))
    assert "No single straggler: 4 different ranks" in stragglers_data(sweep_of(run), run).title
    assert "A different rank is last in each of 4" in straggler_causes_data(sweep_of(run), run).title


def test_of_many_ranks_those_that_explain_are_shown():
    compute_s = np.ones((5, 512))
    compute_s[:, 301] = 2.0
    run = run_of(in_lockstep(compute_s.tolist()))
    data = stragglers_data(sweep_of(run), run)
    assert len(data.ranks) == 24
    assert {0, 301} <= set(data.ranks)
    assert data.note.startswith("24 of 512 ranks")
    figure = draw_stragglers(data)
    assert sum(len(trace["x"]) for trace in figure.traces) <= 5000
    assert figure.layout["height"] < 800


def test_workers_without_exchange_have_no_straggler_timeline():
    run = run_of(alone([1.0, 1.3, 1.0], 10))
    assert stragglers_data(sweep_of(run), run) is None
    assert straggler_causes_data(sweep_of(run), run) is None


def test_the_heat_map_shows_how_much_longer_each_computed():
    run = run_of(in_lockstep(STEADY))
    data = straggler_causes_data(sweep_of(run), run)
    assert np.asarray(data.compute_excess) == pytest.approx(np.tile([[0.0], [0.0], [0.5], [0.0]], 6))
    assert data.late_s == {"device": pytest.approx([0.5] * 6)}
    assert "Rank 2 is last in 6 of 6" in data.title
    assert "100\u202f% of the waiting is due to GPUs that are always slow" in data.title


def test_neighbours_share_a_row_that_keeps_the_slowest():
    compute_s = np.ones((3, 512))
    compute_s[:, 301] = 2.0
    run = run_of(in_lockstep(compute_s.tolist()))
    data = straggler_causes_data(sweep_of(run), run)
    assert (len(data.compute_excess), data.ranks_per_row) == (64, 8)
    assert [row for row in range(64) if data.compute_excess[row][0] > 0.5] == [301 // 8]
    marks = draw_straggler_causes(data).traces[1]
    assert marks["y"] == [301 // 8] * 3


def test_of_many_iterations_the_last_are_drawn():
    run = run_of(in_lockstep(STEADY * 40))
    data = straggler_causes_data(sweep_of(run), run)
    assert data.iterations == list(range(120, 240))
    assert {len(row) for row in data.compute_excess} == {120}
