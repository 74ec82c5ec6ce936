"""With numba's JIT disabled, kernels run as plain Python and give the times of the Python engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simpy

import clustersim
from clustersim.collectives import ALL_REDUCE
from clustersim.network import Network
from clustersim.network.numba_engine.without_jit import Records
from clustersim.strategies import server_strategy
from clustersim.strategies.asynchronous import Async
from tests.strategies.jobs import play

NUM_RANKS = 6
CLUSTER = {
    "kind": "star",
    "num_hosts": 3,
    "host": {"template": "dual-socket", "gpu": "k80", "num_gpus": 2},
    "link": "1 GB/s",
    "hop": "1 us",
}
SLOWDOWN = np.random.default_rng(1).lognormal(0, 0.2, (3, 31))


def network_times(engine: str) -> list[float]:
    """Return when the ranks of an all-reduce with jitter and some transfers beside it end, and what links carried."""
    jitter = np.random.default_rng(0)
    schedule = ALL_REDUCE["ring"](NUM_RANKS, 1e6)
    delay_s = jitter.exponential(2e-4, (NUM_RANKS, schedule.num_steps))
    network = Network(simpy.Environment(), CLUSTER, overhead_s=2e-6, adds=True, engine=engine)
    ranks = network.play(schedule, range(NUM_RANKS), jitter.exponential(1e-3, NUM_RANKS), delay_s)
    sent = network.transfers([0, 1, 4, 5], [3, 2, 1, 0], [3e5, 1e5, 4e5, 2e5], start_s=[0.0, 1e-4, 1e-3, 5e-3])
    single = network.transfer(2, 5, 5e5, weight=2.0)
    network.env.run(simpy.AllOf(network.env, [ranks, sent, single]))
    return [*ranks.value.end_s.tolist(), *sent.value.end_s.tolist(), single.value.end_s, *network.link_bytes.tolist()]


def server_times(most_python_messages: int) -> list[float]:
    """Return the updates of asynchronous workers, who wait in kernels where a job has more messages than that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_strategy, "MOST_PYTHON_MESSAGES", most_python_messages)
        job = play(Async(buckets="layer"), 3, slowdown=SLOWDOWN, num_iterations=12, num_hosts=5)
    return [*job.updates.time_s, *job.updates.worker, *job.updates.version_read, *job.network.link_bytes.tolist()]


def without_jit(call: str, module: str) -> list[float]:
    """Return what a call returns in a process without JIT, for which it loads a module of kernels."""
    code = f"""
import json, sys, tests.network.test_without_jit as here
print(json.dumps(here.{call}))
assert "{module}" in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(clustersim.__file__).parent.parent,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_all_reduce_with_jitter_and_transfers_ends_when_it_does_on_the_python_engine():
    found = without_jit("network_times('numba')", "clustersim.network.numba_engine.instants")
    assert found == pytest.approx(network_times("python"), rel=1e-12)


def test_servers_update_when_they_do_on_the_python_engine():
    found = without_jit("server_times(0)", "clustersim.strategies.kernels.run")
    assert found == pytest.approx(server_times(1_000_000), rel=1e-12)


def test_rows_are_those_of_the_array_and_no_others():
    rows = Records(np.zeros(2, [("size", np.int64)]))
    rows[1].size = 3
    assert (rows[0].size, rows[1].size) == (0, 3)
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            _ = rows[wrong]
