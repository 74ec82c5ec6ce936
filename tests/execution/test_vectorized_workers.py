"""Vectorized workers have the same times as workers that are simulated as processes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.execution.vectorized_workers import VECTORIZED
from clustersim.results import Timesheet
from clustersim.scenario import load_scenario
from clustersim.simulate.outcome import Outcome
from clustersim.simulate.replicate import simulate_replicate
from clustersim.simulate.setup import Setup
from clustersim.strategies import AllReduce, Server, Servers
from tests.strategies.jobs import MB
from tests.strategies.jobs import play as play_job

LAYERS = [(0.01, 0.02, 3 * MB), (0.02, 0.01, 0.4 * MB), (0.01, 0.03, 5 * MB)]
HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 2}
CLUSTERS = {
    "star": {"kind": "star", "num_hosts": 20, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
    "hosts": {"kind": "fat-tree", "k": 4, "host": HOST, "link": "1 GB/s", "hop": "1 us", "num_hosts": 5},
}
STRATEGIES = {
    "ring": AllReduce(algorithm="ring", buckets="1 MiB"),
    "ring-at-the-end": AllReduce(algorithm="ring", buckets="whole", overlap=False),
    "buckets-at-the-end": AllReduce(algorithm="ring", buckets="1 MiB", overlap=False),
    "tree": AllReduce(algorithm="tree", buckets="2 MiB"),
    "hierarchical": AllReduce(algorithm="hierarchical", buckets="2 MiB"),
    "server": Server(buckets="1 MiB", servers=Servers(num=2)),
    "server-at-the-end": Server(overlap=False, servers=Servers(on="host-memory")),
    "server-local-sum": Server(buckets="2 MiB", servers=Servers(local_sum=True)),
    "server-scattered-sum": Server(buckets="2 MiB", servers=Servers(num=2, local_sum="scattered")),
}
STRAGGLERS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "iterations": [{"kind": "lognormal", "cv": 0.1}],
    "layers": [{"kind": "lognormal", "cv": 0.1, "per": "layer"}],
    "slow-one": [{"kind": "constant", "factor": 2, "of": [0]}],
    "periods": [{"kind": "lognormal", "cv": 0.1}, {"kind": "pauses", "every": "40 ms", "lasts": "15 ms"}],
}


def assert_same_times(one: Timesheet, other: Timesheet, within: float) -> None:
    """Compare all columns. Of ranks that enter at the same time, either may be recorded as the last.

    `host_s` is a sum of differences of clock times, so it is compared within the rounding of these.
    """
    for column in fields(Timesheet):
        if column.name != "awaited_rank":
            here, there = getattr(one, column.name), getattr(other, column.name)
            least = within * float(np.nanmax(other.end_s)) if column.name == "host_s" else 0.0
            np.testing.assert_allclose(here, there, rtol=within, atol=least, err_msg=column.name)
    for times in (one, other):
        awaited = ~np.isnan(times.awaited_rank)
        rank, iteration, bucket = times.awaited_rank[awaited].astype(int), *np.nonzero(awaited)[1:]
        np.testing.assert_array_equal(times.enter_s[rank, iteration, bucket], times.awaited_s[awaited])


INPUTS: dict[str, dict[str, Any]] = {
    "read-and-decoded": {"decode": "300 samples/s", "storage": "30 MB/s", "sample_bytes": "110 kB", "cv": 0.2},
    "copied": {"copied_bytes": "602 kB", "prefetch": 0},
    "copied-ahead": {
        "decode": "500 samples/s",
        "copied_bytes": "20 MB",
        "copied_ahead": True,
        "memory": "first-socket",
    },
}


def outcome(
    num_gpus: int, strategy: str, stragglers: str, transport: str, replicate: int, cluster: str, **changes: Any
) -> Outcome:
    """Simulate three iterations of the training of a small network."""
    scenario = load_scenario(
        {
            "name": "vectorized",
            "model": "squeezenet-1.0",
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 4},
            "topology": CLUSTERS[cluster],
            "software": "plain",
            "transport": transport,
            "strategy": STRATEGIES[strategy].model_dump(exclude_defaults=True) | {"kind": STRATEGIES[strategy].kind},
            "stragglers": STRAGGLERS[stragglers],
            "num_iterations": 2 if stragglers in ("none", "slow-one") else 3,
            "replicates": 2,
            "seed": 5,
        }
        | changes
    )
    return simulate_replicate(Setup(scenario.points()[0].point), replicate, False, lambda share: None)


@pytest.mark.parametrize("stragglers", STRAGGLERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_vectorized_workers_have_the_times_of_processes_whatever_slows_the_ranks(strategy, stragglers, monkeypatch):
    number = [*STRATEGIES].index(strategy) + [*STRAGGLERS].index(stragglers)
    num_gpus, transport = [1, 2, 7, 16][number % 4], ["mpi", "nccl", "ideal"][number % 3]
    case = (num_gpus, strategy, stragglers, transport, number % 2, ["hosts", "star"][number // 2 % 2])
    vectorized = outcome(*case)
    monkeypatch.setattr(type(STRATEGIES[strategy]), "proved_shortcuts", frozenset())
    processes = outcome(*case)
    assert_same_times(vectorized.times, processes.times, 1e-12)
    np.testing.assert_allclose(vectorized.link_bytes, processes.link_bytes, rtol=1e-12)


@pytest.mark.parametrize("samples", INPUTS)
@pytest.mark.parametrize("strategy", ["ring", "server", "server-local-sum"])
@pytest.mark.parametrize("transport", ["mpi", "nccl"])
def test_vectorized_workers_have_the_times_of_processes_that_wait_for_samples(
    transport, strategy, samples, monkeypatch
):
    case = (7, strategy, "iterations", transport, 0, "hosts")
    vectorized = outcome(*case, input=INPUTS[samples])
    monkeypatch.setattr(type(STRATEGIES[strategy]), "proved_shortcuts", frozenset())
    processes = outcome(*case, input=INPUTS[samples])
    assert np.isfinite(vectorized.times.fetched_s).any()
    assert_same_times(vectorized.times, processes.times, 1e-12)
    np.testing.assert_allclose(vectorized.link_bytes, processes.link_bytes, rtol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 1000), num_ranks=st.sampled_from([2, 5, 9]), transport=st.sampled_from(["ideal", "mpi"]))
@settings(max_examples=4, deadline=None)
def test_an_exact_run_gives_the_same_times(strategy, seed, num_ranks, transport):
    slowdown = np.random.default_rng(seed).lognormal(0, 0.3, (num_ranks, 5))
    options = {"slowdown": slowdown, "layers": LAYERS, "num_iterations": 3, "transport": transport}
    one, other = (play_job(STRATEGIES[strategy], num_ranks, exact=exact, **options) for exact in (False, True))
    assert_same_times(one.times, other.times, 1e-9)
    assert one.env.now == pytest.approx(other.env.now, rel=1e-9)
    assert one.num_warm_up == other.num_warm_up


def test_an_exact_run_simulates_processes_and_another_does_not(monkeypatch):
    """Counted in events on the clock: each step of each rank is one, while vectorized ranks share theirs."""

    def num_events(exact: bool) -> int:
        job = play_job(AllReduce(algorithm="ring", buckets="layer"), 8, layers=LAYERS, exact=exact)
        return next(job.env._eid)

    assert num_events(True) > 2 * num_events(False)


def shortcuts(exact: bool, **changes: Any) -> tuple[str, ...]:
    scenario = {
        "name": "vectorized",
        "model": "squeezenet-1.0",
        "num_gpus": 4,
        "batch": {"per_gpu": 4},
        "topology": CLUSTERS["star"],
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
        "stragglers": STRAGGLERS["iterations"],
        "num_iterations": 2,
    }
    return clustersim.sweep(scenario | changes, exact=exact).shortcuts


def test_a_result_says_that_its_workers_are_vectorized():
    assert VECTORIZED in shortcuts(exact=False)
    assert VECTORIZED in shortcuts(exact=False, strategy={"kind": "server"}, num_gpus=[1, 2])
    assert VECTORIZED in shortcuts(exact=False, jobs=2)
    assert VECTORIZED in shortcuts(exact=False, input={"decode": "100 samples/s"})


def test_a_result_does_not_say_so_where_workers_are_processes():
    assert shortcuts(exact=True) == ()
    assert VECTORIZED not in shortcuts(exact=False, strategy={"kind": "async"})


def test_without_gradients_workers_only_compute():
    job = play_job(AllReduce(), 3, np.array([[1.0], [2.0], [1.0]]), layers=[(1.0, 2.0, 0.0)], num_iterations=2)
    assert job.times.end_s[:, :3].tolist() == [[3.5, 7.0, 10.5], [7.0, 14.0, 21.0], [3.5, 7.0, 10.5]]
    assert job.env.now == 21.0
