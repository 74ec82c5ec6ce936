"""Servers of TensorFlow: what their processes' threads carry bounds an iteration."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.simulate.collective import time_collective
from clustersim.workload import load_model

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2680-v3"}
SCENARIO: dict[str, Any] = {
    "model": "alexnet",
    "num_gpus": 8,
    "batch": {"per_gpu": 1},
    "topology": {"kind": "star", "num_hosts": 2, "link": "100 GB/s", "hop": "1 us", "host": HOST},
    "num_iterations": 1,
}
ONE_THREAD = load_transport("tensorflow-grpc-one-thread")
INTO_S, FROM_S = (1 / (rate or 0.0) for rate in (ONE_THREAD.receiving_bytes_per_s, ONE_THREAD.sending_bytes_per_s))
NUM_BYTES = 4 * sum(layer.num_parameters for layer in load_model("alexnet").layers)


def exposed_s(transport: str, **servers: Any) -> float:
    """Return what is seen of an exchange that begins when backward ends."""
    strategy = {"kind": "server", "overlap": False, "servers": {"pull": "together", **servers}}
    run = clustersim.sweep(SCENARIO | {"strategy": strategy, "transport": transport}).runs[0]
    return run.breakdown_s["communication_exposed"]


@pytest.mark.parametrize(
    ("servers", "threads_s"),
    [
        ({}, 8 * INTO_S + 8 * FROM_S),  # of eight processes: one thread takes gradients in, one gives parameters out
        ({"num": 2}, 4 * INTO_S + 4 * FROM_S),
        ({"process": "host", "local_sum": True}, 2 * INTO_S + INTO_S),  # a sum of each host in, and each host's copy
    ],
)
def test_what_a_servers_threads_carry_comes_on_top_of_copies_and_adding(servers, threads_s):
    """The threads' seconds at least, and with the copies, additions and updates that sockets have, too, at most."""
    seconds, plain_s = exposed_s(ONE_THREAD.name, **servers), exposed_s("tcp", **servers)
    assert NUM_BYTES * threads_s < seconds < NUM_BYTES * threads_s + plain_s


def test_eight_threads_carry_eight_workers_gradients_side_by_side():
    """Each worker's at the rate of its own thread, so that others make it no slower."""
    eight = load_transport("tensorflow-grpc")
    assert (eight.threads, eight.receiving_bytes_per_s) == (8, pytest.approx(0.8e9))
    seconds = exposed_s(eight.name)
    assert 2 * NUM_BYTES / 0.8e9 < seconds < 2 * NUM_BYTES / 0.8e9 + exposed_s("tcp")


@pytest.mark.parametrize(
    "strategy", [{"kind": "all-reduce"}, {"kind": "async"}, {"kind": "server", "servers": {"on": "gpu0"}}]
)
def test_what_has_no_processes_is_refused(strategy):
    told = r"strategy: processes whose threads carry so much \(tensorflow-grpc\) .* take the strategy server, or"
    with pytest.raises(InputError, match=told):
        clustersim.sweep(SCENARIO | {"strategy": strategy, "transport": "tensorflow-grpc"})


def test_a_collective_among_processes_is_refused():
    with pytest.raises(InputError, match="simulated in training with servers only"):
        time_collective("all-reduce", SCENARIO["topology"], "ring", 4, [1e6], "tensorflow-grpc")
