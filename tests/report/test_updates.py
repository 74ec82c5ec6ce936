"""Clocks, staleness over time, and versions as arrows."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.report.clocks import clocks_data
from clustersim.report.staleness_time import draw_staleness_time, staleness_time_data
from clustersim.report.versions import draw_versions, versions_data
from clustersim.results import WorkerIterations
from clustersim.results.read_times import read_times
from tests.report.worker_runs import add, alone, in_lockstep, round_robin, run_of, sweep_of


def test_a_worker_twice_as_fast_gets_ahead_by_one_each_turn():
    run = run_of(alone([1.0, 2.0], 5))
    data = clocks_data(sweep_of(run), run)
    assert data.labels == ["rank 0", "rank 1"]
    lead = dict(zip(np.round(data.time_s, 9).tolist(), data.lead[0], strict=True))
    assert [lead[float(time)] for time in (0, 1, 2, 3, 4)] == [0, 1, 1, 2, 2]
    assert set(data.lead[1]) == {0}


def test_the_mean_lead_is_over_time():
    run = run_of(alone([1.0, 3.0], 4))
    data = clocks_data(sweep_of(run), run)
    times, lead = np.array(data.time_s), np.array(data.fastest)
    assert data.mean == pytest.approx(float((lead[:-1] * np.diff(times)).sum() / times[-1]))
    assert data.most == lead.max()


def test_workers_in_lockstep_have_no_clock_figure():
    run = run_of(in_lockstep([[1.0, 1.5]] * 5))
    assert clocks_data(sweep_of(run), run) is None


def test_many_workers_are_shown_by_quartiles():
    run = run_of(alone(np.linspace(1.0, 2.0, 40).tolist(), 12))
    data = clocks_data(sweep_of(run), run)
    assert len(data.labels) == len(data.lead) == 3
    above, median, below = np.array(data.lead)
    assert (above >= median).all()
    assert (median >= below).all()
    assert (np.array(data.fastest) >= above).all()


@pytest.mark.parametrize("where", ["axis", "scenario"])
def test_the_bound_of_the_scenario_is_drawn(where):
    axes = {"strategy.bound": 3} if where == "axis" else {}
    scenario = {"name": "x", **({"strategy": {"bound": 3}} if where == "scenario" else {})}
    run = run_of(alone([1.0, 2.0], 8), axes=axes)
    assert clocks_data(sweep_of(run, scenario=scenario), run).bound == 3


def test_each_gradient_is_read_when_its_iteration_began():
    cycles, updates = round_robin(4, 6)
    run = run_of(cycles, updates)
    begins = {(row.rank, round(row.computed_s, 9)): row.begin_s for row in cycles.rows()}
    expected = [begins[worker, round(time_s, 9)] for time_s, worker, *_ in updates]
    assert read_times(run.updates, run.cycles) == pytest.approx(expected)


def test_a_gradient_that_waits_for_others_is_that_of_the_iteration_before():
    cycles = WorkerIterations()
    for number in range(3):
        add(cycles, 0, number, float(number), number + 1.0, number + 1.0, 0.0, -1)
    updates = [(1.5, 0, 0, 1, 1.0, True), (2.5, 0, 0, 2, 1.0, True), (3.0, 0, 1, 3, 1.0, True)]
    assert read_times(run_of(cycles, updates).updates, cycles) == pytest.approx([0.0, 1.0, 2.0])


def test_gradients_of_iterations_that_were_not_kept_have_no_time():
    cycles, updates = round_robin(2, 4)
    late = WorkerIterations(*(column[4:] for column in vars(cycles).values()))
    times = read_times(run_of(cycles, updates).updates, late)
    assert np.isnan(times[:4]).all()
    assert not np.isnan(times[4:]).any()


def test_arrows_lead_from_the_version_read_to_the_one_made():
    run = run_of(*round_robin(4, 6))
    data = versions_data(sweep_of(run), run)
    assert {arrow.staleness for arrow in data.arrows} == {3}
    for arrow in data.arrows:
        crossed = [since_s for since_s in data.since_s if arrow.read_s + 1e-9 < since_s < arrow.applied_s - 1e-9]
        assert len(crossed) == arrow.staleness
    assert "staleness is 3\u202fversions" in data.title


def test_of_many_workers_some_are_shown_with_the_oldest_gradient():
    cycles, updates = round_robin(200, 4)
    updates[-20] = (*updates[-20][:2], 1, *updates[-20][3:])
    run = run_of(cycles, updates)
    data = versions_data(sweep_of(run), run)
    assert len(data.workers) == 16
    assert updates[-20][1] in data.workers
    assert data.every > 1
    assert all(version % data.every == 0 for version in data.version)
    assert len(data.version) <= 90
    assert data.note == "16 of 200 workers are shown."


def test_dropped_gradients_are_arrows_that_make_nothing():
    cycles, updates = round_robin(3, 5)
    updates = [(*row[:5], number % 3 != 2) for number, row in enumerate(updates)]
    run = run_of(cycles, updates)
    data = versions_data(sweep_of(run), run)
    dropped = [arrow for arrow in data.arrows if not arrow.accepted]
    assert {arrow.worker for arrow in dropped} == {2}
    assert f"{len(dropped)} of the last" in data.title
    assert any(trace["name"] == "dropped" for trace in draw_versions(data).traces)


def test_fresh_gradients_have_neither_arrows_nor_an_age_over_time():
    run = run_of(in_lockstep([[1.0, 1.5]] * 5), [(1.0 + n, -1, n, n + 1, 1.0, True) for n in range(5)])
    assert versions_data(sweep_of(run), run) is None
    assert staleness_time_data(sweep_of(run), run) is None


def test_staleness_over_time_has_the_mean_of_each_stretch():
    run = run_of(*round_robin(4, 40))
    data = staleness_time_data(sweep_of(run), run)
    assert data.mean[1:] == pytest.approx([3.0] * (len(data.mean) - 1))
    assert data.num_gradients == 160
    assert data.rate == []
    assert "Staleness is steady" in data.title


def test_growing_staleness_is_in_the_title():
    cycles, updates = round_robin(2, 50)
    older = [(*row[:2], max(0, row[2] - number // 10), *row[3:]) for number, row in enumerate(updates)]
    run = run_of(cycles, older)
    assert staleness_time_data(sweep_of(run), run).title.startswith("Staleness grows from")


def test_the_learning_rate_is_drawn_where_it_depends_on_staleness():
    cycles, updates = round_robin(4, 20)
    run = run_of(cycles, [(*row[:4], 1.0 / max(1, row[3] - 1 - row[2]), True) for row in updates])
    data = staleness_time_data(sweep_of(run), run)
    assert data.rate[-1] == pytest.approx(1 / 3)
    assert "with 0.3" in data.title
    assert any(trace.get("yaxis") == "y2" for trace in draw_staleness_time(data).traces)
