"""The shipped scenarios that train a task answer their questions, within their budgets of time."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import clustersim
from clustersim.results import Run

pytestmark = pytest.mark.learning

MOST_CPU_S = 60.0


def runs_of(name: str, *overrides: str) -> Sequence[Run]:
    return clustersim.sweep(clustersim.load_scenario(name, overrides=list(overrides))).runs


def time_s(run: Run) -> float | None:
    """Return the time to the target in all seeds; None if it was not reached."""
    assert run.learning is not None
    return run.learning.time_to_target_s


@pytest.mark.parametrize("name", ["time-to-accuracy", "how-stale-is-too-stale"])
def test_a_scenario_takes_less_than_a_minute_of_cpu(name: str, tmp_path: Path) -> None:
    """The command alone in a process, with the import of torch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "clustersim", "run", name], cwd=tmp_path, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_CPU_S


def test_six_strategies_reach_the_target_with_as_many_gradients_and_in_another_order_than_that_of_rates() -> None:
    """Those that do not wait for the slow GPU are the first by far; gossip is the last, and not so in its rate."""
    runs = runs_of("time-to-accuracy")
    trained = [run.learning for run in runs if run.learning is not None]
    assert len(trained) == 6
    assert [each.num_reached for each in trained] == [4] * 6
    gradients = [each.updates * each.samples_per_update for each in trained]
    assert gradients == pytest.approx([gradients[0]] * 6, rel=0.005)
    times_s = {str(run.axes["case"]): time_s(run) or math.inf for run in runs}
    rates = {str(run.axes["case"]): run.samples_per_s for run in runs}
    by_time = sorted(times_s, key=lambda case: times_s[case])
    by_samples = sorted(rates, key=lambda case: -rates[case])
    assert set(by_time[:2]) == {"async", "backup"}
    assert times_s[by_time[1]] < 0.75 * times_s[by_time[2]]
    assert by_time[-1] == "gossip"
    assert by_samples[-1] == "all-reduce"
    assert times_s["gossip"] > 1.3 * times_s["all-reduce"]


def test_a_small_rate_takes_more_staleness_than_a_large_one_and_a_rate_over_the_staleness_takes_all() -> None:
    reached = {
        (run.num_gpus, run.axes["learning.optimizer.rate"], run.axes["strategy.staleness_aware_rate"]): time_s(run)
        for run in runs_of("how-stale-is-too-stale", "learning.seeds=1", "num_iterations=8")
    }
    fixed_small, fixed_large, aware_large = (
        [size for size in (4, 8, 16, 32) if reached[size, *key] is not None]
        for key in ((0.1, False), (0.4, False), (0.4, True))
    )
    assert (fixed_small, fixed_large, aware_large) == ([4, 8, 16], [4], [4, 8, 16, 32])


def test_seldom_averages_pay_with_like_samples_and_fail_with_unlike_ones() -> None:
    reached = {
        (run.axes["strategy.steps"], run.axes["learning.data"]): time_s(run)
        for run in runs_of("local-sgd-how-often", "learning.seeds=1", "strategy.steps=[1, 4, 64]", "num_iterations=8")
    }
    every, some, seldom = (reached[steps, "shared"] for steps in (1, 4, 64))
    assert every is not None
    assert some is not None
    assert seldom is not None
    assert 5 * seldom < 2 * some < every
    assert reached[64, "by-label"] is None
    assert reached[1, "by-label"] is not None


def test_backup_workers_pay_where_compute_times_have_a_heavy_tail() -> None:
    overrides = ("strategy.backups=[0, 4, 8]", "stragglers.0.cv=[0.02, 0.6]", "num_iterations=3")
    reached = {
        (run.axes["strategy.backups"], run.axes["stragglers.0.cv"]): time_s(run)
        for run in runs_of("backup-workers-pay-when", *overrides)
    }
    even, even_with_most = reached[0, 0.02], reached[8, 0.02]
    heavy, heavy_with_some = reached[0, 0.6], reached[4, 0.6]
    assert even is not None
    assert even_with_most is not None
    assert heavy is not None
    assert heavy_with_some is not None
    assert even_with_most > 1.2 * even
    assert heavy_with_some < 0.8 * heavy
