"""Workers on the clock of the network have the same times as workers on the clock of SimPy."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.execution.job import ON_NETWORK_CLOCK, Job
from clustersim.network import Network
from clustersim.results import Timesheet
from clustersim.strategies import Servers
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.backup import Backup
from clustersim.strategies.bounded_staleness import BoundedStaleness
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.softsync import Softsync
from tests.strategies.jobs import MB, play

LAYERS = [(0.01, 0.02, 3 * MB), (0.02, 0.01, 0.4 * MB), (0.01, 0.03, 5 * MB)]
AROUND = Servers(num=3)
APART = Servers(num=2, on="own-hosts")
STRATEGIES = {
    "async": Async(servers=APART),
    "async-whole": Async(buckets="whole", overlap=False, servers=Servers(on="own-hosts")),
    "async-around": Async(buckets="1 MiB", servers=AROUND, staleness_aware_rate=True),
    "softsync": Softsync(n=2, buckets="layer", servers=Servers(on="host-memory")),
    "bounded": BoundedStaleness(bound=1, buckets="layer", servers=Servers(on="gpu0")),
    "bounded-apart": BoundedStaleness(bound=0, servers=APART),
    "backup": Backup(backups=2, buckets="layer", servers=APART),
    "backup-fraction": Backup(fraction=0.6, servers=Servers(num=2, on="gpus")),
    "gossip": Gossip(asynchronous=True, buckets="2 MiB"),
    "gossip-at-the-end": Gossip(asynchronous=True, graph="complete", overlap=False),
}
TRANSPORTS = ["ideal", "nccl", "mpi"]


def assert_same(one: Job, other: Job) -> None:
    """Compare all times and the bytes on links, and the order of simultaneous updates.

    Times at the very end are left out, because one of the jobs may have noted more of them.
    """
    assert one.updates.version_read == other.updates.version_read
    assert one.updates.worker == other.updates.worker
    assert one.updates.accepted == other.updates.accepted
    np.testing.assert_allclose(one.updates.time_s, other.updates.time_s, rtol=1e-9)
    np.testing.assert_allclose(one.updates.learning_rate, other.updates.learning_rate, rtol=0)
    assert one.env.now == pytest.approx(other.env.now, rel=1e-9)
    for name in (column.name for column in fields(Timesheet)):
        here, there = (getattr(job.times, name).copy() for job in (one, other))
        for job, column in ((one, here), (other, there)):
            times_s = job.times.awaited_s if name == "awaited_rank" else column
            column[(times_s >= job.env.now * (1 - 1e-12)) & (times_s < np.inf)] = np.nan
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=0, err_msg=name)
    np.testing.assert_allclose(one.network.link_bytes, other.network.link_bytes, rtol=1e-9)


def both(strategy: str, num_ranks: int, slowdown: np.ndarray | None, transport: str) -> tuple[Job, Job]:
    options = {"slowdown": slowdown, "layers": LAYERS, "num_iterations": 12 * num_ranks, "transport": transport}
    options["num_hosts"] = num_ranks + 2
    inside, outside = (play(STRATEGIES[strategy], num_ranks, exact=exact, **options) for exact in (False, True))
    return inside, outside


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 1000), num_ranks=st.sampled_from([3, 5, 9]), transport=st.sampled_from(TRANSPORTS))
@settings(max_examples=4, deadline=None)
def test_workers_on_the_inner_clock_make_the_same_updates_at_the_same_times(strategy, seed, num_ranks, transport):
    slowdown = np.random.default_rng(seed).lognormal(0, 0.2, (num_ranks, 31))
    assert_same(*both(strategy, num_ranks, slowdown, transport))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_so_do_equal_workers_that_do_everything_at_the_same_time(strategy, transport):
    assert_same(*both(strategy, 4, None, transport))


def test_an_exact_run_has_its_workers_on_simpys_clock_and_another_has_not():
    inside, outside = both("async", 4, None, "nccl")
    assert inside.shortcuts == (ON_NETWORK_CLOCK,)
    assert outside.shortcuts == ()
    assert next(inside.env._eid) < 10 < next(outside.env._eid)


def shortcuts(exact: bool, **changes) -> tuple[str, ...]:
    scenario = {
        "name": "inside",
        "model": "squeezenet-1.0",
        "num_gpus": 4,
        "batch": {"per_gpu": 4},
        "topology": {"kind": "star", "num_hosts": 5, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
        "strategy": {"kind": "async"},
        "num_iterations": 8,
    }
    return clustersim.sweep(scenario | changes, exact=exact).shortcuts


def test_a_result_lists_the_clock_of_its_workers_as_a_shortcut():
    assert ON_NETWORK_CLOCK in shortcuts(exact=False)
    assert shortcuts(exact=True) == ()
    assert ON_NETWORK_CLOCK not in shortcuts(exact=False, input={"decode": "100 samples/s"})


@pytest.mark.parametrize("strategy", ["async-around", "backup"])
def test_the_compiled_engine_has_the_inner_clock_as_well(strategy, monkeypatch):
    slowdown = np.random.default_rng(2).lognormal(0, 0.2, (5, 31))  # the order of simultaneous events is not defined
    options = {"slowdown": slowdown, "layers": LAYERS, "num_iterations": 40, "num_hosts": 7}
    inside = play(STRATEGIES[strategy], 5, **options)
    made = Network.__init__

    def make_compiled(network: Network, *arguments, **options) -> None:
        made(network, *arguments, **options, engine="numba")

    monkeypatch.setattr(Network, "__init__", make_compiled)
    compiled = play(STRATEGIES[strategy], 5, **options)
    assert type(inside.network.engine) is not type(compiled.network.engine)
    assert_same(inside, compiled)
