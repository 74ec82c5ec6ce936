"""Servers of TensorFlow: what their processes' threads carry bounds an iteration."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.model import load_model
from clustersim.simulate.collective import time_collective
from tests.placed import placed

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2680-v3"}
SCENARIO: dict[str, Any] = {
    "software": "plain",
    "model": "alexnet",
    "num_gpus": 8,
    "batch": {"per_gpu": 1},
    "topology": {"kind": "star", "num_hosts": 2, "link": "100 GB/s", "hop": "1 us", "host": HOST},
    "num_iterations": 1,
}
ONE_THREAD = load_transport("tensorflow-grpc-one-thread")
FROM_S = 1 / (ONE_THREAD.sending_bytes_per_s or 0.0)
SIZES = [4.0 * layer.num_parameters for layer in load_model("alexnet").layers]
NUM_BYTES = sum(SIZES)


def into_s(num_servers: int = 1) -> float:
    """Return the seconds in which a thread takes in what a server has of each layer, by itself."""
    rate, half_rate = ONE_THREAD.receiving_bytes_per_s, ONE_THREAD.half_rate_bytes
    assert rate is not None
    assert half_rate is not None
    return sum(size / num_servers * (1 + size / num_servers / half_rate) for size in SIZES) / rate


def exposed_s(transport: str, **servers: Any) -> float:
    """Return what is seen of an exchange that begins when backward ends, layer by layer."""
    strategy = {"kind": "server", "overlap": False, "buckets": "layer", "servers": {"pull": "together", **servers}}
    run = clustersim.sweep(placed(SCENARIO | {"strategy": strategy, "transport": transport})).runs[0]
    return run.breakdown_s["communication_exposed"]


@pytest.mark.parametrize(
    ("servers", "threads_s"),
    [  # of eight processes: one thread takes gradients in, one gives parameters out, each worker's takes its own in
        ({}, 8 * into_s() + NUM_BYTES * 8 * FROM_S),
        ({"num": 2}, 8 * into_s(2) + NUM_BYTES * 4 * FROM_S),
        ({"process": "host", "local_sum": True}, 2 * into_s() + into_s()),  # a sum of each host in, each host's copy
    ],
)
def test_what_a_servers_threads_carry_comes_on_top_of_copies_and_adding(servers, threads_s):
    """The threads' seconds at least, and with the copies, additions and updates that sockets have, too, at most.

    And with what the workers' threads take for the last layers that they are given, after all have been sent.
    """
    seconds, plain_s = exposed_s(ONE_THREAD.name, **servers), exposed_s("tcp", **servers)
    assert threads_s < seconds < threads_s + plain_s + into_s(servers.get("num", 1))


def test_parameters_that_are_handed_out_at_once_come_back_while_others_are_taken_in():
    """At least what the server's thread takes in, and at most as much as where all wait for the last update."""
    assert 8 * into_s() < exposed_s(ONE_THREAD.name, pull="each") < exposed_s(ONE_THREAD.name)


def test_halves_of_a_large_tensor_are_taken_in_sooner_than_the_whole():
    """By two servers in less than half the time: each has half the bytes, and a half as large tensor is quicker."""
    one_s, two_s = (exposed_s(ONE_THREAD.name, num=num) for num in (1, 2))
    assert two_s < 0.5 * one_s


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
    words = r"strategy: the transport tensorflow-grpc limits .* with parameter servers in host memory"
    with pytest.raises(InputError, match=words):
        clustersim.sweep(SCENARIO | {"strategy": strategy, "transport": "tensorflow-grpc"})


def test_a_collective_among_processes_is_refused():
    with pytest.raises(InputError, match="simulated in training with servers only"):
        time_collective("all-reduce", SCENARIO["topology"], "ring", 4, [1e6], "tensorflow-grpc")
