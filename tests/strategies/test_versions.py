"""The update log has versions of the whole model, for any number of buckets and servers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.strategies import Servers
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.backup import Backup
from clustersim.strategies.bounded_staleness import BoundedStaleness
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.hierarchical import Hierarchical
from clustersim.strategies.softsync import Softsync
from tests.strategies.jobs import MB, play
from tests.strategies.test_laws import INSTANT, jitter

THREE = Servers(num=3)
BY_LAYER = [
    Async(buckets="layer"),
    Async(buckets="layer", servers=THREE),
    Softsync(n=2, buckets="layer"),
    Softsync(n=3, buckets="layer", servers=THREE),
    Backup(backups=2, buckets="layer"),
    Backup(backups=2, buckets="layer", servers=THREE),
    BoundedStaleness(bound=1, buckets="layer"),
    BoundedStaleness(bound=0, buckets="layer", servers=THREE),
    Hierarchical(buckets="layer"),
    Gossip(asynchronous=True, buckets="layer"),
]
LAYERS = [(0.02, 0.04, 6 * MB), (0.01, 0.03, 9 * MB), (0.03, 0.05, 3 * MB)]
SEEDS = st.integers(0, 1000)


@pytest.mark.parametrize("strategy", BY_LAYER, ids=lambda each: f"{each.kind}-{getattr(each, 'servers', None)}")
@given(seed=SEEDS)
@settings(max_examples=4, deadline=None)
def test_versions_follow_each_other_without_a_gap_and_each_takes_as_many_gradients(strategy, seed):
    job = play(strategy, 6, jitter(6, seed, sigma=0.6), LAYERS, num_iterations=40)
    rows = [row for row in job.updates.rows() if row.accepted]
    each = job.gradients_per_update
    assert [row.version_written for row in rows] == [1 + number // each for number in range(len(rows))]
    assert len(rows) >= 40 * each


@pytest.mark.parametrize("strategy", BY_LAYER, ids=lambda each: f"{each.kind}-{getattr(each, 'servers', None)}")
@given(seed=SEEDS)
@settings(max_examples=4, deadline=None)
def test_a_gradient_is_computed_on_a_version_that_was_there_when_its_iteration_began(strategy, seed):
    job = play(strategy, 6, jitter(6, seed, sigma=0.6), LAYERS, num_iterations=40)
    since_s = {0: 0.0}
    iteration = dict.fromkeys(range(6), 0)
    for row in job.updates.rows():
        if row.accepted:
            since_s[row.version_written] = row.time_s
        assert since_s[row.version_read] <= job.times.begin_s[row.worker, iteration[row.worker]]
        assert row.version_read < row.version_written
        iteration[row.worker] += 1


@given(seed=SEEDS)
@settings(max_examples=4, deadline=None)
def test_by_layer_too_every_update_is_one_that_each_other_worker_has_not_read(seed):
    """One gradient of each worker is always in transit, so on average n - 1 others are applied before it."""
    job = play(Async(buckets="layer", servers=THREE), 6, jitter(6, seed), LAYERS, num_iterations=600)
    assert job.updates.staleness[6:].mean() == pytest.approx(5, abs=0.05)


def test_a_lone_worker_reads_what_it_has_written_by_layer_too():
    job = play(Async(buckets="layer", servers=THREE), 1, jitter(1), LAYERS, num_iterations=20)
    assert set(job.updates.staleness.tolist()) == {0}


@pytest.mark.parametrize("servers", [Servers(), THREE])
def test_an_update_of_backup_workers_is_of_the_same_workers_in_every_bucket(servers):
    """Gradients are taken or dropped as a whole, so those of an update are as many as it takes, all of its version."""
    slowdown = jitter(6, sigma=0.8)
    job = play(Backup(backups=2, buckets="layer", servers=servers), 6, slowdown, LAYERS, num_iterations=40)
    assert (~job.updates.is_accepted).sum() > 20
    for row in job.updates.rows():
        assert row.staleness == 0 if row.accepted else row.staleness >= 1
    made = np.asarray(job.updates.version_written)[job.updates.is_accepted]
    workers = np.asarray(job.updates.worker)[job.updates.is_accepted]
    for version in range(1, 41):
        assert len(set(workers[made == version].tolist())) == 4


def test_bounded_staleness_counts_versions_and_not_clocks():
    """Of four identical workers each gradient is three versions old, although no clock is ahead of another."""
    job = play(BoundedStaleness(bound=2), 4, num_iterations=40, **INSTANT)
    assert set(job.updates.staleness[4:].tolist()) == {3}
