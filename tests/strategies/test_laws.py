"""Properties of strategies for any random draws: staleness, bounds, and strategies that must agree."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.execution import Job
from clustersim.results import parts
from clustersim.strategies import STRATEGIES, AllReduce, Server, Servers
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.backup import Backup
from clustersim.strategies.bounded_staleness import BoundedStaleness
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.hierarchical import Hierarchical
from clustersim.strategies.local import Local
from clustersim.strategies.server_strategy import ServerStrategy
from clustersim.strategies.softsync import Softsync
from clustersim.strategies.strategy import OnProgress
from tests.strategies.jobs import HOP, INSTANT, MB, RATE, play, result

WHOLE = {"buckets": "whole", "overlap": False}
APART = Servers(num=1, on="own-hosts")
LAYER = [(1.0, 2.0, 8 * MB)]
ASYNCHRONOUS = [
    Async(**WHOLE),
    Async(buckets="layer"),
    Async(staleness_aware_rate=True, servers=Servers(num=3)),
    Softsync(n=2),
    Backup(backups=2),
    Backup(fraction=0.7, buckets="layer"),
    BoundedStaleness(bound=1),
    Hierarchical(),
    Gossip(asynchronous=True),
    Gossip(asynchronous=True, graph="complete", overlap=False),
]


def jitter(num_ranks: int, seed: int = 0, sigma: float = 0.3, num_iterations: int = 97) -> np.ndarray:
    """Return factors [num_ranks, num_iterations] of lognormal jitter."""
    return np.random.default_rng(seed).lognormal(0, sigma, (num_ranks, num_iterations))


@pytest.mark.parametrize("num_workers", [1, 2, 7, 16])
@pytest.mark.parametrize("knobs", [WHOLE, {"buckets": "layer"}, {"servers": Servers(num=3, on="own-hosts")}])
def test_identical_asynchronous_workers_are_n_minus_1_versions_stale_after_the_first_n(num_workers, knobs):
    job = play(Async(**knobs), num_workers, num_iterations=5 * num_workers, num_hosts=num_workers + 3, **INSTANT)
    staleness = job.updates.staleness
    assert staleness[:num_workers].tolist() == list(range(num_workers))
    assert set(staleness[num_workers:].tolist()) == {num_workers - 1}


def test_over_many_updates_the_mean_staleness_is_n_minus_1_however_much_the_workers_vary():
    staleness = result(Async(**WHOLE), 8, 4000, slowdown=jitter(8, num_iterations=5000), **INSTANT).staleness
    assert len(staleness) == 4000
    assert staleness.mean() == pytest.approx(7, abs=0.01)
    assert staleness.std() > 1


@pytest.mark.parametrize("strategy", [AllReduce(), Server(), Local(), Gossip(), Backup(backups=0), Backup(backups=3)])
def test_synchronous_gradients_are_never_stale(strategy):
    outcome = result(strategy, 6, 6, slowdown=jitter(6))
    assert set(outcome.staleness.tolist()) == {0}


@pytest.mark.parametrize("bound", [0, 1, 3])
@pytest.mark.parametrize("knobs", [WHOLE, {"buckets": "layer"}, {"servers": Servers(num=2)}])
@given(seed=st.integers(0, 1000))
@settings(max_examples=4, deadline=None)
def test_bounded_staleness_never_exceeds_its_bound(bound, knobs, seed):
    job = play(BoundedStaleness(bound=bound, **knobs), 5, jitter(5, seed, sigma=1.0), num_iterations=60)
    applied_s = [[row.time_s for row in job.updates.rows() if row.worker == worker] for worker in range(5)]
    for iteration in range(bound + 1, job.times.num_begun):
        begun = job.times.begin_s[:, iteration]
        clock = iteration - bound  # of the slowest worker, at least
        assert all(len(times) >= clock for times in applied_s)
        assert np.nanmin(begun) >= max(times[clock - 1] for times in applied_s)
    clocks = np.zeros(5, dtype=int)
    for worker in job.updates.worker:
        clocks[worker] += 1
        assert clocks.max() - clocks.min() <= bound + 1  # and one gradient in transit


def test_the_others_wait_for_a_slow_worker_at_the_bound():
    slowdown = np.ones((4, 1))
    slowdown[2] = 5.0
    outcome = result(BoundedStaleness(bound=2, **WHOLE), 4, 80, slowdown=slowdown, **INSTANT)
    own = np.flatnonzero(np.asarray(outcome.updates.worker) == 2)
    assert set(np.diff(own).tolist()) == {4}  # one gradient of each worker in each of its iterations
    waiting = [part["waiting"] for part in outcome.worker_parts()]
    assert waiting[2] == 0
    assert waiting[0] == pytest.approx(24, rel=0.05)  # of each 30 s of the slow one it computes 6
    awaited = outcome.times.awaited_rank[0, outcome.weights[0] > 0]
    assert set(awaited[~np.isnan(awaited)].tolist()) == {2.0}


def test_a_wide_bound_is_no_bound():
    slowdown = jitter(5)
    free = play(Async(**WHOLE), 5, slowdown=slowdown, num_iterations=50).updates
    bounded = play(BoundedStaleness(bound=1000, **WHOLE), 5, slowdown=slowdown, num_iterations=50).updates
    assert bounded.time_s[: len(free)] == free.time_s


@pytest.mark.parametrize("bound", [0, 2, 8])
def test_a_short_window_gives_the_pace_that_a_bounded_job_reaches(bound):
    """The lead takes rounds to reach the bound, and that comes before the window: three of six workers are slow."""
    slowdown = np.ones((6, 1))
    slowdown[:3], slowdown[3] = 2.0, 1.2
    outcome = result(BoundedStaleness(bound=bound, **WHOLE), 6, 12, slowdown=slowdown, **INSTANT)
    assert outcome.iteration_s == pytest.approx(12.0, rel=0.02)
    assert outcome.warnings == ()


@pytest.mark.parametrize(
    ("bound", "slowest", "words"),
    [(3, 1.0, "in 21 rounds: so far it changes nothing"), (500, 2.0, "in the 200 rounds before the measurement")],
)
def test_a_bound_that_no_worker_reached_is_told(bound, slowest, words):
    slowdown = np.ones((2, 1))
    slowdown[1] = slowest
    outcome = result(BoundedStaleness(bound=bound, **WHOLE), 2, 1, slowdown=slowdown, **INSTANT)
    assert words in outcome.warnings[0]


@pytest.mark.parametrize("num_ranks", [1, 2, 6])
@pytest.mark.parametrize("knobs", [WHOLE, {"buckets": "layer"}, {"buckets": "10 MB", "overlap": False}])
@pytest.mark.parametrize("num_servers", [1, 3])
def test_no_backup_worker_is_the_synchronous_server(num_ranks, knobs, num_servers):
    options = {"slowdown": jitter(num_ranks), "num_hosts": num_ranks + 3, "layers": [(0.02, 0.03, 8 * MB)] * 4}
    servers = Servers(num=num_servers, on="own-hosts")
    server = result(Server(servers=servers, **knobs), num_ranks, 6, **options)
    backup = result(Backup(backups=0, servers=servers, **knobs), num_ranks, 6, **options)
    assert backup.iteration_s == server.iteration_s
    assert backup.update_s == server.update_s
    assert backup.worker_parts() == server.worker_parts()


class TakesAll(Backup):
    """The processes of `backup`, without backup workers."""

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        return ServerStrategy.start(self, job, on_progress)


@pytest.mark.parametrize("num_ranks", [1, 2, 6])
@pytest.mark.parametrize("knobs", [WHOLE, {"buckets": "layer"}, {"buckets": "10 MB", "overlap": False}])
@pytest.mark.parametrize("num_servers", [1, 3])
def test_an_update_that_takes_all_gradients_is_that_of_the_synchronous_server(num_ranks, knobs, num_servers):
    options = {"slowdown": jitter(num_ranks), "num_hosts": num_ranks + 3, "layers": [(0.02, 0.03, 8 * MB)] * 4}
    servers = Servers(num=num_servers, on="own-hosts")
    server = play(Server(servers=servers, **knobs), num_ranks, num_iterations=6, **options)
    backup = play(TakesAll(backups=0, servers=servers, **knobs), num_ranks, num_iterations=6, **options)
    assert backup.times.end_s[:, :7] == pytest.approx(server.times.end_s[:, :7], rel=1e-9)
    for name, part in parts(server.times).items():
        assert parts(backup.times)[name][:, :7] == pytest.approx(part[:, :7], rel=1e-9, abs=1e-9)


def test_without_backup_workers_the_server_adds_as_the_synchronous_one_does():
    host = {"template": "single-socket", "gpu": "k80"}
    options = {"slowdown": jitter(4), "num_hosts": 5, "host": host, "transport": "mpi"}
    server, backup = (
        play(kind(servers=APART, **WHOLE, **more), 4, num_iterations=5, **options)
        for kind, more in ((Server, {}), (TakesAll, {"backups": 0}))
    )
    assert backup.times.end_s[:, :6] == pytest.approx(server.times.end_s[:, :6], rel=1e-9)


def test_an_update_takes_the_first_gradients_and_drops_the_late_ones():
    slowdown = np.ones((5, 1))
    slowdown[3] = 2.5
    outcome = result(Backup(backups=1, **WHOLE), 5, 20, slowdown=slowdown, **INSTANT)
    assert outcome.update_s == pytest.approx(6.0, rel=1e-6)
    assert outcome.gradients == (
        20 * 4,
        20 * 6.0 // 15.0,
    )  # the slow worker takes 15 s for each dropped gradient
    dropped = {row.worker for row in outcome.updates.rows() if not row.accepted}
    assert dropped == {3}
    assert outcome.applied_share == 80 / 88


def test_backups_given_as_a_fraction_are_the_same_backups():
    slowdown = jitter(10)
    some, share = (result(Backup(**knob), 10, 5, slowdown=slowdown) for knob in ({"backups": 3}, {"fraction": 0.7}))
    assert some.iteration_s == share.iteration_s


@pytest.mark.parametrize(("num_workers", "n"), [(30, 15), (30, 30), (30, 1), (16, 4)])
def test_softsync_is_about_n_versions_stale_and_hardly_ever_twice_that(num_workers, n):
    """Zhang et al. (2016) report a mean of about 15 for n = 15 and 30 learners, and next to none above 2 n."""
    slowdown = jitter(num_workers, sigma=0.1)
    outcome = result(Softsync(n=n, **WHOLE), num_workers, 40 * n, slowdown=slowdown, **INSTANT)
    assert outcome.gradients_per_update == num_workers // n
    assert n - 1.1 <= outcome.staleness.mean() <= n + 0.5
    assert (outcome.staleness > 2 * n).mean() < 1e-3


def test_softsync_of_as_many_as_there_are_workers_is_asynchronous():
    slowdown = jitter(6)
    soft = result(Softsync(n=6, **WHOLE), 6, 60, slowdown=slowdown)
    free = result(Async(**WHOLE), 6, 60, slowdown=slowdown)
    assert soft.iteration_s == free.iteration_s
    assert soft.updates == free.updates


@given(seed=st.integers(0, 1000), num_ranks=st.integers(1, 8))
@settings(max_examples=8, deadline=None)
def test_over_an_instant_network_asynchronous_is_at_least_as_fast(seed, num_ranks):
    slowdown = jitter(num_ranks, seed)
    options = {"slowdown": slowdown, "num_iterations": 10, "update_s": 0.0, **INSTANT}
    free, step = play(Async(**WHOLE), num_ranks, **options), play(Server(**WHOLE), num_ranks, **options)
    num = min(11, free.times.num_begun)
    free_s, step_s = free.times.end_s[:, :num], step.times.end_s[:, :num]
    own_s = 6.0 * np.cumsum(slowdown[:, :num], axis=1)
    ended = ~np.isnan(free_s)
    assert (free_s <= step_s * (1 + 1e-9))[ended].all()
    assert free_s[ended] == pytest.approx(own_s[ended], rel=1e-6)
    assert ended.any(axis=1).all()


def test_staleness_aware_rates_are_one_over_the_staleness():
    job = play(Async(staleness_aware_rate=True, **WHOLE), 4, jitter(4), num_iterations=40)
    assert {row.learning_rate for row in job.updates.rows()} > {1 / 3}
    for row in job.updates.rows():
        assert row.learning_rate == 1 / max(1, row.staleness)
    assert {row.learning_rate for row in play(Async(), 4, num_iterations=10).updates.rows()} == {1.0}


def test_local_steps_pay_for_one_averaging_in_every_round():
    each, exchange = 3.5, 2 * (2 * HOP + 8 * MB / 2 / RATE)
    for steps in (1, 2, 5):
        outcome = result(Local(steps=steps, algorithm="ring"), 2, 10, layers=LAYER)
        assert outcome.iteration_s == pytest.approx(each + exchange / steps, rel=1e-9)


def test_a_host_with_one_gpu_makes_hierarchical_asynchronous():
    slowdown = jitter(5)
    hosts = result(Hierarchical(**WHOLE), 5, 50, slowdown=slowdown)
    free = result(Async(**WHOLE), 5, 50, slowdown=slowdown)
    assert hosts.iteration_s == pytest.approx(free.iteration_s, rel=1e-12)
    assert hosts.staleness.tolist() == free.staleness.tolist()


def test_hierarchical_waits_for_the_slowest_inside_a_host_but_not_between_hosts():
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 4}
    slowdown = np.ones((8, 1))
    slowdown[6] = 3.0
    outcome = result(
        Hierarchical(**WHOLE, servers=APART), 8, 30, slowdown=slowdown, num_hosts=3, host=host, layers=LAYER
    )
    waiting = [part["waiting"] for part in outcome.worker_parts()]
    assert waiting[:4] == pytest.approx([0.0] * 4, abs=1e-6)
    assert waiting[4] == pytest.approx(6.0, rel=1e-3)
    assert {row.worker for row in outcome.updates.rows()} == {0, 4}


def test_gossip_waits_for_neighbours_only():
    slowdown = np.ones((8, 60))
    slowdown[0, 20] = 3.0
    free = {"num_iterations": 4, "layers": LAYER, "update_s": 0.0, **INSTANT}
    job = play(Gossip(overlap=False), 8, slowdown, **{**free, "num_iterations": 30})
    waiting = parts(job.times)["waiting"]
    late = [rank for rank in range(8) if waiting[rank, 20] > 1]
    assert late == [1, 7]
    assert {rank for rank in range(8) if waiting[rank, 21] > 1} == {2, 6}


def test_gossip_with_overlap_hides_the_averaging_behind_the_gradient():
    alone_s = 3.0 + 0.5
    exchange_s = 2 * HOP + 2 * 8 * MB / RATE
    hidden, shown = (result(Gossip(overlap=overlap), 4, 3, layers=LAYER) for overlap in (True, False))
    assert hidden.iteration_s == pytest.approx(alone_s, rel=1e-9)
    assert shown.iteration_s == pytest.approx(alone_s + exchange_s, rel=1e-9)


def test_asynchronous_gossip_goes_on_beside_a_slow_worker():
    slowdown = np.ones((6, 1))
    slowdown[2] = 4.0
    outcome = result(Gossip(asynchronous=True, graph="complete"), 6, 60, slowdown=slowdown, layers=LAYER)
    cycles = [sum(part.values()) for part in outcome.worker_parts()]
    assert cycles[0] == pytest.approx(3.5, rel=1e-2)
    assert cycles[2] == pytest.approx(14.0, rel=1e-2)


@pytest.mark.parametrize("strategy", ASYNCHRONOUS, ids=lambda strategy: f"{strategy.kind}-{strategy.buckets}")
@pytest.mark.parametrize("transport", ["ideal", "mpi"])
def test_parts_fill_every_iteration_of_asynchronous_workers_too(strategy, transport):
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 2}
    layers = [(0.01, 0.02, 9 * MB)] * 3
    outcome = result(strategy, 6, 12, slowdown=jitter(6), layers=layers, num_hosts=4, host=host, transport=transport)
    counts, split = outcome.weights > 0, parts(outcome.times)
    length = (outcome.times.end_s - outcome.times.begin_s)[counts]
    assert sum(part[counts] for part in split.values()) == pytest.approx(length, rel=1e-9)
    assert min(part[counts].min() for part in split.values()) >= -1e-12
    assert counts.any(axis=1).all()


@pytest.mark.parametrize("strategy", ASYNCHRONOUS, ids=lambda strategy: f"{strategy.kind}-{strategy.buckets}")
def test_random_draws_are_the_same_in_every_run_of_a_seed(strategy):
    one, other = (result(strategy, 5, 20, slowdown=jitter(5)) for _ in range(2))
    assert one.updates == other.updates
    assert one.iteration_s == other.iteration_s


def test_servers_queue_simultaneous_gradients():
    """Of four gradients that arrive at the same time, each update waits for those before it."""
    host = {"template": "single-socket", "gpu": "k80"}
    job = play(Async(servers=APART, **WHOLE), 4, num_iterations=4, num_hosts=5, host=host, layers=LAYER)
    times = np.diff(np.array(job.updates.time_s[:4]))
    core_bytes_per_s = job.network.topology.core_bytes_per_s(job.network.topology.memory[4])
    assert times == pytest.approx([8 * MB * 5.0 / core_bytes_per_s] * 3, rel=1e-6)


@pytest.mark.parametrize("num_workers", [3, 8])
def test_every_strategy_of_the_table_trains_any_number_of_workers(num_workers):
    for kind, member in STRATEGIES.items():
        knobs = {"bound": 1} if kind == "bounded-staleness" else {}
        outcome = result(member(**knobs), num_workers, 3)
        assert outcome.iteration_s >= 6, kind
        assert outcome.update_s <= outcome.iteration_s * (1 + 1e-12), kind


def test_backup_workers_have_an_optimum_under_a_heavy_tail_and_are_useless_without():
    """Chen et al. (2016) report that a few backups train fastest; among equal workers each backup is wasted."""

    def samples_per_s(backups: int, slowdown: np.ndarray) -> float:
        outcome = result(Backup(backups=backups, **WHOLE), 16, 40, slowdown=slowdown, **INSTANT)
        return outcome.applied_share / outcome.iteration_s

    tail = 2 / 3 * (1 + np.random.default_rng(1).pareto(3, (16, 97)))
    heavy = [samples_per_s(backups, tail) for backups in (0, 3, 13)]
    assert heavy[1] > 1.2 * heavy[0]
    assert heavy[1] > 1.2 * heavy[2]
    even = [samples_per_s(backups, np.ones((16, 1))) for backups in (0, 3, 13)]
    assert even == pytest.approx([1 / 6, 13 / 16 / 6, 3 / 16 / 6], rel=1e-6)
