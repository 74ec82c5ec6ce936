"""Servers on GPUs that copy as in TensorFlow: what waits for what, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clustersim.execution.job import Job
from clustersim.hardware import load_cpu, load_gpu, load_link
from clustersim.strategies import Server, Servers
from tests.strategies.jobs import MB, play

CPU = load_cpu("xeon-e5-2680-v3")
HOST = {"template": "single-root", "gpu": "gtx-1070", "num_gpus": 2, "num_switches": 1, "cpu": CPU.name}
RATE = load_link("pcie-3-x16").bytes_per_s
FORWARD, BACKWARD = 0.2, 0.3  # of each layer
TINY, LARGE, SMALL = ((FORWARD, BACKWARD, num_bytes) for num_bytes in (8.0, 800 * MB, 400 * MB))
SECOND = 1  # iteration: in the first iteration all begin together


def two_gpus(layers: Any = (TINY, LARGE, SMALL), **options: Any) -> Job:
    servers = {"num": 2, "on": "gpus", "whole": True, "pull": "together", "one_stream": True} | options.pop("on", {})
    host = HOST | {"num_gpus": options.get("num_ranks", 2)}
    strategy = Server(buckets="layer", servers=Servers(**servers))
    return play(strategy, **{"num_ranks": 2, "layers": layers, "num_iterations": 2, "host": host} | options)


def test_a_gradient_waits_until_the_receiving_gpu_has_finished_earlier_kernels():
    """GPU 0 has the larger tensor and pulls the smaller, so it begins first: the larger gradient of GPU 1 waits."""
    times, large, small = two_gpus().times, 1, 0  # buckets, in backward order
    assert times.begin_s[0, SECOND] < times.begin_s[1, SECOND]
    assert times.enter_s[0, SECOND, small] == pytest.approx(times.ready_s[0, SECOND, small])
    assert times.enter_s[1, SECOND, large] == pytest.approx(times.computed_s[0, SECOND])
    assert times.ready_s[1, SECOND, large] < times.computed_s[0, SECOND]


def test_two_tensors_of_two_gpus_add_their_times():
    """GPU 0 begins when it has the smaller tensor, and receives the gradient of the larger one after its kernels."""
    times = two_gpus().times
    computing_s, copies_s = 3 * (FORWARD + BACKWARD), (SMALL[2] + LARGE[2]) / RATE
    updating_s = 5 * LARGE[2] / load_gpu(HOST["gpu"]).memory_bytes_per_s
    cycle_s = times.end_s[1, SECOND] - times.begin_s[1, SECOND]
    assert cycle_s == pytest.approx(computing_s + copies_s + updating_s, rel=1e-6)


def test_gpus_that_begin_together_do_not_wait():
    times = two_gpus(((FORWARD, BACKWARD, 8 * MB),) * 2).times
    assert times.begin_s[0, SECOND] == pytest.approx(times.begin_s[1, SECOND], abs=1e-12)
    assert times.enter_s[:, SECOND, 0] == pytest.approx(times.ready_s[:, SECOND, 0])


def test_a_gpu_gets_tensors_in_its_own_memory_at_once_and_others_one_after_another():
    times = two_gpus((LARGE, SMALL), num_ranks=3, on={"on": "gpu0", "num": 1}).times
    small_s, large_s = SMALL[2] / RATE, LARGE[2] / RATE
    behind_s = times.begin_s[:, SECOND] - times.begin_s[0, SECOND]
    assert behind_s.tolist() == pytest.approx([0.0, 2 * small_s + large_s, 2 * small_s + 2 * large_s], rel=1e-6)


def test_workers_that_update_their_own_parameters_do_not_wait():
    times = two_gpus(on={"on": "gpu0", "num": 1, "update_on": "workers"}).times
    assert times.enter_s[:, SECOND, 0] == pytest.approx(times.ready_s[:, SECOND, 0])


@pytest.mark.parametrize("pull", ["each", "together"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("update_on", ["servers", "workers"])
@pytest.mark.parametrize("transport", ["ideal", "cuda-copies", "mpi"])
def test_processes_and_arrays_agree_on_gpus_that_wait_for_each_other(pull, whole, update_on, transport):
    host = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "plx_per_socket": 0, "cpu": CPU.name}
    layers = [(0.02, 0.03, 300 * MB), (0.01, 0.02, 5 * MB), (0.03, 0.04, 120 * MB), (0.01, 0.01, 1 * MB)]
    slowdown = np.array([[1.0, 1.2], [1.1, 1.0], [1.0, 1.0], [1.05, 0.9]])
    on = {"num": 3, "pull": pull, "whole": whole, "update_on": update_on}
    vectorized, simulated = (
        two_gpus(
            layers, num_ranks=4, host=host, slowdown=slowdown, num_iterations=3, on=on, transport=transport, exact=exact
        )
        for exact in (False, True)
    )
    for name in ("end_s", "begin_s", "computed_s", "enter_s"):
        assert getattr(vectorized.times, name) == pytest.approx(
            getattr(simulated.times, name), rel=1e-9, nan_ok=True
        ), name
