"""Workers that are not in step: as many updates count as were asked for, in a window of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.simulate.outcome import outcome_of
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.backup import Backup
from clustersim.strategies.bounded_staleness import BoundedStaleness
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.hierarchical import Hierarchical
from clustersim.strategies.softsync import Softsync
from tests.strategies.jobs import INSTANT, play, result
from tests.strategies.test_laws import ASYNCHRONOUS, WHOLE, jitter

CYCLE_S = 6.0


def true_cycle_s(slowdown: np.ndarray) -> float:
    """Return the mean cycle over a long time of workers that do not wait for each other: each makes 1 / mean."""
    return CYCLE_S * len(slowdown) / float((1 / slowdown.mean(axis=1)).sum())


@pytest.mark.parametrize("strategy", ASYNCHRONOUS, ids=lambda strategy: f"{strategy.kind}-{strategy.buckets}")
@pytest.mark.parametrize("num_updates", [1, 10, 33])
def test_as_many_updates_count_as_were_asked_for(strategy, num_updates):
    outcome = result(strategy, 6, num_updates, slowdown=jitter(6))
    accepted = outcome.updates.is_accepted
    assert len(set(np.asarray(outcome.updates.version_written)[accepted].tolist())) == num_updates
    assert outcome.gradients[0] == num_updates * outcome.gradients_per_update
    assert outcome.window_s == pytest.approx(num_updates * outcome.update_s, rel=1e-12)


@pytest.mark.parametrize("num_updates", [1, 5, 16, 100])
@pytest.mark.parametrize("slowest", [1.0, 1.3, 4.0])
def test_a_window_of_any_length_gives_the_mean_cycle_of_steady_workers(num_updates, slowest):
    """Identical workers' updates come in bursts, and a slow one's may not come at all: neither biases the result."""
    slowdown = np.ones((16, 1))
    slowdown[5] = slowest
    outcome = result(Async(**WHOLE), 16, num_updates, slowdown=slowdown, **INSTANT)
    assert outcome.iteration_s == pytest.approx(true_cycle_s(slowdown), rel=1e-6)


def test_under_jitter_a_window_of_ten_rounds_is_biased_by_less_than_its_chance():
    errors = []
    for seed in range(12):
        slowdown = jitter(8, seed, num_iterations=997) * np.linspace(1, 2, 8)[:, None]
        outcome = result(Async(**WHOLE), 8, 80, slowdown=slowdown, **INSTANT)
        errors.append(outcome.iteration_s / true_cycle_s(slowdown) - 1)
    assert abs(np.mean(errors)) < 0.02
    assert abs(np.mean(errors)) < np.std(errors)


@given(seed=st.integers(0, 1000), num_updates=st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_gradients_in_the_window_follow_from_the_pace_up_to_one_of_each_worker(seed, num_updates):
    job = play(Softsync(n=3, **WHOLE), 6, jitter(6, seed), num_iterations=num_updates)
    outcome = outcome_of(job)
    length_s = job.window.end_s - job.window.start_s
    assert abs(length_s / outcome.iteration_s * 6 - sum(outcome.gradients)) <= 6
    assert outcome.window_s * 6 == pytest.approx(sum(outcome.gradients) * outcome.iteration_s, rel=1e-12)


@given(seed=st.integers(0, 1000), num_updates=st.integers(1, 40), backups=st.integers(1, 4))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("knobs", [WHOLE, {"buckets": "layer"}])
def test_with_backups_gradients_over_the_window_are_the_samples_per_second(knobs, seed, num_updates, backups):
    """The window goes from one update to another, so that all figures are of the same gradients and the same time."""
    job = play(Backup(backups=backups, **knobs), 6, jitter(6, seed), num_iterations=num_updates)
    outcome = outcome_of(job)
    applied, dropped = outcome.gradients
    length_s = job.window.end_s - job.window.start_s
    assert applied == num_updates * (6 - backups)
    assert outcome.window_s == pytest.approx(length_s, rel=1e-12)
    assert outcome.update_s == pytest.approx(length_s / num_updates, rel=1e-12)
    assert 6 * outcome.applied_share / outcome.iteration_s == pytest.approx(applied / length_s, rel=1e-12)
    assert 6 / outcome.iteration_s == pytest.approx((applied + dropped) / length_s, rel=1e-12)
    assert sum(outcome.mean_parts().values()) == pytest.approx(outcome.iteration_s, rel=1e-9)


@pytest.mark.parametrize(
    "strategy", [Async(**WHOLE), Softsync(n=2, **WHOLE), Gossip(asynchronous=True, graph="complete")]
)
def test_a_worker_that_is_cut_off_counts_with_its_time_and_does_not_delay_the_end(strategy):
    slowdown = np.ones((4, 1))
    slowdown[1] = 1e6
    job = play(strategy, 4, slowdown, update_s=0.0, num_iterations=60, **INSTANT)
    outcome = outcome_of(job)
    length_s = job.window.end_s - job.window.start_s
    assert job.env.now < 4 * length_s
    assert outcome.iteration_s == pytest.approx(4 * length_s / (3 * length_s / CYCLE_S), rel=1e-6)
    assert outcome.worker_parts()[1]["compute"] > length_s
    assert sum(outcome.mean_parts().values()) == pytest.approx(outcome.iteration_s, rel=1e-9)


def test_workers_that_wait_for_one_that_is_cut_off_wait_for_it_until_the_run_ends():
    slowdown = np.ones((4, 100))
    slowdown[1, 22:], slowdown[3, 20:] = 1e6, 1.5
    outcome = result(
        BoundedStaleness(bound=9, **WHOLE), 4, 37, slowdown=slowdown, **INSTANT
    )  # after 20 rounds; then 12 of each rank but 2 of rank 1 and 11 of rank 3
    assert set(outcome.times.awaited_rank[[0, 2], 31, 0].tolist()) == {1}
    for rank, part in enumerate(outcome.worker_parts()):
        assert (part["waiting"] > 1e-6) == (rank in {0, 2})
        assert part["communication_exposed"] < 1e-3


@pytest.mark.parametrize(
    "strategy", [Async(), Softsync(), Backup(backups=1), BoundedStaleness(bound=1), Hierarchical()]
)
def test_a_model_of_which_nothing_is_pushed_is_refused_and_not_played_for_ever(strategy):
    with pytest.raises(InputError, match=r"the model has no parameters, so no gradient is pushed"):
        play(strategy, 3, layers=[(1.0, 2.0, 0.0)])
