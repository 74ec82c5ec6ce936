"""Figures of a long training over time, and of its checkpoint interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clustersim.report.checkpoints import checkpoint_interval_data, draw_checkpoint_interval
from clustersim.report.failure_time import STATES, draw_failure_time, failure_time_data
from clustersim.results import FailureTimes
from tests.report.synthetic import make_run
from tests.report.worker_runs import sweep_of

DAY = 86_400.0
TIMES = FailureTimes(
    useful_s=8 * DAY,
    checkpoint_s=0.5 * DAY,
    lost_s=1.0 * DAY,
    restart_s=0.5 * DAY,
    num_failures=2.0,
    num_checkpoints=40.0,
    mtbf_s=5 * DAY,
    write_s=1000.0,
    down_s=20_000.0,
    interval_s=30_000.0,
    young_s=29_000.0,
    daly_s=28_500.0,
    best_s=20_000.0,
    intervals=((10_000.0, 10.4 * DAY, 10.5 * DAY), (20_000.0, 10.0 * DAY, 10.1 * DAY), (40_000.0, 11.0 * DAY, None)),
    downtimes=((3 * DAY, "host", 1, 0.6 * DAY, 3.25 * DAY), (7 * DAY, "gpu", 5, 0.4 * DAY, 7.25 * DAY)),
)


def data_of(times=TIMES, **parts):
    run = replace(make_run(8), failures=times)
    return failure_time_data(sweep_of(run), run, **parts)


def test_the_shares_of_every_bin_sum_to_one():
    data = data_of()
    total = np.sum([data.share[state] for state in STATES], axis=0)
    assert total == pytest.approx(1.0)


def test_the_bins_sum_to_the_whole_training():
    data = data_of()
    assert data.length_s == pytest.approx(10 * DAY)
    seconds = {state: sum(data.share[state]) * data.bin_s for state in STATES}
    assert seconds == pytest.approx({"useful": 8 * DAY, "saving": 0.5 * DAY, "lost": 1.0 * DAY, "restart": 0.5 * DAY})


def test_work_is_lost_before_a_failure_and_the_restart_comes_after():
    data = data_of(max_bins=40)
    lost = [place * data.bin_s / DAY for place, share in enumerate(data.share["lost"]) if share > 0.999]
    down = [place * data.bin_s / DAY for place, share in enumerate(data.share["restart"]) if share > 0.999]
    assert lost == pytest.approx([2.5, 2.75, 6.75])
    assert down == pytest.approx([3.0, 7.0])


def test_failures_have_their_time_and_component():
    data = data_of()
    assert data.failures == ((3 * DAY, "host 1"), (7 * DAY, "gpu 5"))
    assert data.title == "80\u202f% of the training time is useful; the largest other part is lost work, 10\u202f%"
    assert any("1 by host, 1 by GPU" in trace["name"] for trace in draw_failure_time(data).traces)


def test_only_as_many_failures_as_were_kept_are_drawn():
    data = data_of(replace(TIMES, num_failures=5000.0))
    assert data.length_s == pytest.approx(7.25 * DAY)
    assert data.note == "Drawn up to failure 2."


def test_a_training_without_a_failure_says_so():
    data = data_of(replace(TIMES, num_failures=0.0, lost_s=0.0, restart_s=0.0, downtimes=()))
    assert data.title.startswith("Nothing fails in ")
    assert sum(data.share["lost"]) == 0


def test_without_failures_in_the_scenario_there_is_no_figure():
    run = make_run(8)
    assert failure_time_data(sweep_of(run), run) is None
    assert checkpoint_interval_data(sweep_of(run), run) is None


def test_named_intervals_lie_on_the_simulated_curve():
    run = replace(make_run(8), failures=TIMES)
    data = checkpoint_interval_data(sweep_of(run), run)
    assert data.marks["best"] == (20_000.0, pytest.approx(10.0 * DAY))
    middle = 10.0 * DAY + 1.0 * DAY * np.log(1.5) / np.log(2.0)
    assert data.marks["as simulated"] == (30_000.0, pytest.approx(middle))
    assert data.title.startswith(
        "A checkpoint every 5.56\u202fh is best; the simulated interval, 8.33\u202fh, makes the training"
    )
    names = [trace["name"] for trace in draw_checkpoint_interval(data).traces]
    assert names[:2] == ["simulated", "expected"]


def test_two_intervals_are_no_curve():
    run = replace(make_run(8), failures=replace(TIMES, intervals=TIMES.intervals[:2]))
    assert checkpoint_interval_data(sweep_of(run), run) is None
