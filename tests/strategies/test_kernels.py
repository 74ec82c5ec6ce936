"""A job in compiled kernels has the times of the job as processes, to rounding."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.execution.job import Job
from clustersim.results import Timesheet
from clustersim.strategies import Servers, server_strategy
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.kernels.kernel_job import KernelJob
from clustersim.strategies.softsync import Softsync
from tests.contracts.exactness import differences
from tests.strategies.jobs import MB, play

LAYERS = [(0.01, 0.02, 3 * MB), (0.02, 0.01, 0.4 * MB), (0.01, 0.03, 5 * MB)]
OWN = Servers(on="own-hosts")
STRATEGIES = {
    "async": Async(servers=Servers(num=2, on="own-hosts")),
    "async-whole": Async(buckets="whole", overlap=False, servers=OWN),
    "async-around": Async(buckets="1 MiB", servers=Servers(num=3), staleness_aware_rate=True),
    "async-on-a-gpu": Async(buckets="layer", servers=Servers(on="gpu0")),
    "async-in-a-host": Async(buckets="layer", servers=Servers(on="host-memory")),
    "softsync": Softsync(n=2, buckets="layer", servers=Servers(num=2, on="host-memory")),
}
HOSTS = {
    "a GPU a host": {},
    "four GPUs a host": {"host": {"template": "dual-socket", "gpu": "k80", "num_gpus": 4}},
}


def run_both(monkeypatch: pytest.MonkeyPatch, strategy: str, num_ranks: int, **options) -> tuple[Job, Job]:
    jobs = []
    for max_messages in (0, 1_000_000):
        monkeypatch.setattr(server_strategy, "MOST_PYTHON_MESSAGES", max_messages)
        options["num_hosts"] = num_ranks + 2
        jobs.append(play(STRATEGIES[strategy], num_ranks, layers=LAYERS, **dict(options)))
    return jobs[0], jobs[1]


def assert_same(one: Job, other: Job) -> None:
    """Compare everything: orders and counts exactly, times to the rounding of SimPy's sums of delays."""
    for name in ("worker", "version_read", "version_written", "learning_rate", "accepted"):
        assert getattr(one.updates, name) == getattr(other.updates, name)
    np.testing.assert_allclose(one.updates.time_s, other.updates.time_s, rtol=1e-12)
    assert one.env.now == pytest.approx(other.env.now, rel=1e-12)
    for name in ("start_s", "end_s", "first_row", "last_row", "num_updates"):
        assert getattr(one.window, name) == pytest.approx(getattr(other.window, name), rel=1e-12)
    for name in (column.name for column in fields(Timesheet)):
        here, there = (getattr(job.times, name)[:, : job.times.num_begun] for job in (one, other))
        np.testing.assert_allclose(here, there, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(one.network.link_bytes, other.network.link_bytes, rtol=1e-12)
    assert one.shortcuts == other.shortcuts


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    seed=st.integers(0, 1000),
    num_ranks=st.sampled_from([3, 7, 12]),
    transport=st.sampled_from(["ideal", "nccl", "mpi"]),
)
@settings(max_examples=3, deadline=None)
def test_kernels_and_processes_note_the_same_times(strategy, hosts, seed, num_ranks, transport):
    slowdown = np.random.default_rng(seed).lognormal(0, 0.2, (num_ranks, 31))
    with pytest.MonkeyPatch.context() as patch:
        options = {"slowdown": slowdown, "num_iterations": 8 * num_ranks, "transport": transport}
        assert_same(*run_both(patch, strategy, num_ranks, **options, **HOSTS[hosts]))


@pytest.mark.parametrize("is_alike", [True, False])
def test_equal_workers_do_not_run_in_kernels(is_alike, monkeypatch):
    used, run = [], KernelJob.run
    monkeypatch.setattr(server_strategy, "MOST_PYTHON_MESSAGES", 0)
    monkeypatch.setattr(KernelJob, "run", lambda job, on_progress: used.append(job) or run(job, on_progress))
    play(STRATEGIES["async"], 3, None if is_alike else [[1.0], [1.1], [1.2]], layers=LAYERS, num_hosts=5)
    assert len(used) == (0 if is_alike else 1)


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kernels_order_simultaneous_events_as_processes_do(strategy, hosts, monkeypatch):
    """Equal workers, which do not run in kernels by default, do everything at the same times."""
    monkeypatch.setattr(Job, "can_use_kernels", True)
    assert_same(*run_both(monkeypatch, strategy, 12, num_iterations=60, transport="nccl", **HOSTS[hosts]))


def test_room_is_made_for_more_iterations_and_gradients_than_were_expected(monkeypatch):
    """After the window closes the job waits for a slow worker, while the others push gradients that do not count."""
    slowdown = np.array([[20.0], [1.0], [1.1]])
    one, other = run_both(monkeypatch, "async-whole", 3, slowdown=slowdown, num_iterations=200)
    assert one.times.num_begun > 64
    assert len(one.updates) > one.window.last_row + 6
    assert_same(one, other)


SCENARIO = {
    "name": "compiled",
    "model": "squeezenet-1.0",
    "num_gpus": 4,
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "num_hosts": 5, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "async"},
    "num_iterations": 20,
}
STRAGGLERS = {
    "drawn": [{"kind": "lognormal", "cv": 0.2}, {"kind": "constant", "factor": 2.0, "of": [1]}],
    "by layer": [{"kind": "gamma", "cv": 0.3, "per": "layer"}],
    "pauses": [{"kind": "pauses", "every": "500 ms", "lasts": "100 ms"}],
    "links": [{"kind": "link-slow-downs", "factor": 4.0, "every": "2 s", "lasts": "1 s"}],
}


def results_of_both(monkeypatch, stragglers, launch):
    """Return the results from kernels and from processes."""
    asked, found = (
        SCENARIO | {"stragglers": STRAGGLERS[stragglers], "software": {"name": "plain", "launch": launch}},
        [],
    )
    for max_messages in (0, 1_000_000):
        monkeypatch.setattr(server_strategy, "MOST_PYTHON_MESSAGES", max_messages)
        found.append(clustersim.sweep(asked).to_dict())
    return found


@pytest.mark.parametrize("stragglers", STRAGGLERS)
def test_a_result_is_the_same_from_kernels_and_processes(stragglers, monkeypatch):
    one, other = results_of_both(monkeypatch, stragglers, "graphs")
    assert one == other


@pytest.mark.parametrize("stragglers", STRAGGLERS)
def test_kernels_and_processes_wait_alike_for_the_host(stragglers, monkeypatch):
    """Both sum the same seconds, in another order."""
    one, other = results_of_both(monkeypatch, stragglers, "queued")
    assert one["runs"][0]["breakdown_s"]["host"] > 0
    assert list(differences(one, other)) == []


RUNS = """
import sys
from clustersim import simulate
SCENARIO = {scenario}
print("numba" in sys.modules)
strategy, jitter = {{"kind": "async", "buckets": "whole"}}, [{{"kind": "lognormal", "cv": 0.1}}]
simulate(SCENARIO | {{"num_gpus": 2, "num_iterations": {num_updates}, "strategy": strategy, "stragglers": jitter}})
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("num_updates", "is_loaded"), [(100, False), (33_400, True)])
def test_only_a_job_of_many_messages_loads_a_compiler(num_updates, is_loaded):
    """A gradient of one bucket is pushed, applied and pulled, so 33,333 gradients are 100,000 messages."""
    done = subprocess.run(
        [sys.executable, "-c", RUNS.format(num_updates=num_updates, scenario=SCENARIO)],
        cwd=Path(clustersim.__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["False", str(is_loaded)]
