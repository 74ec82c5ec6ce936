"""A GPU runs one kernel after the other, and copies at the rate of its PCIe link."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.devices import GpuDevice, Queue
from clustersim.network import Network
from clustersim.program.issue import IssueBuilder, PassIssue
from clustersim.stragglers import STRAGGLERS, paces
from clustersim.topology import load_topology


@pytest.fixture
def gpu() -> GpuDevice:
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    env = simpy.Environment()
    return GpuDevice(env, Network(env, cluster), 1)


def test_kernels_queue_on_one_stream(gpu):
    first, second = (gpu.env.process(gpu.compute(1.0)) for _ in range(2))
    gpu.env.run(first & second)
    assert gpu.env.now == 2.0


def test_a_kernel_waits_for_a_pause_to_end(gpu):
    pause = STRAGGLERS["pauses"].model_validate({"kind": "pauses", "at": ["500 ms", "4 s"], "lasts": "3 s"})
    (pace,) = paces([pause], 0, np.zeros(1)) or []
    network = gpu._network
    paced = GpuDevice(gpu.env, network, 1, pace)
    first, second = (gpu.env.process(paced.compute(1.0)) for _ in range(2))
    gpu.env.run(first)
    assert gpu.env.now == pytest.approx(4.0)  # half a second before the pause, half after it, when the next begins
    gpu.env.run(second)
    assert gpu.env.now == pytest.approx(8.0)


def test_a_copy_takes_bytes_over_the_pcie_rate(gpu):
    links = gpu._network.topology.links
    rate = min(rate for rate, kind in zip(links.bytes_per_s, links.kind, strict=True) if kind.startswith("pcie"))
    gpu.env.run(gpu.env.process(gpu.copy_out(3e9)))
    assert gpu.env.now == pytest.approx(3e9 / rate)


def test_copies_in_both_directions_overlap_each_other_and_a_kernel(gpu):
    alone = gpu.env.process(gpu.copy_out(3e9))
    gpu.env.run(alone)
    time = gpu.env.now
    together = [gpu.env.process(work) for work in (gpu.copy_out(3e9), gpu.copy_in(3e9), gpu.compute(time / 2))]
    gpu.env.run(simpy.AllOf(gpu.env, together))
    assert gpu.env.now == pytest.approx(2 * time)


def test_two_copies_in_one_direction_queue_for_the_engine(gpu):
    gpu.env.run(gpu.env.process(gpu.copy_in(3e9)))
    time = gpu.env.now
    both = [gpu.env.process(gpu.copy_in(3e9)) for _ in range(2)]
    gpu.env.run(both[0])
    assert gpu.env.now == pytest.approx(2 * time)


def test_a_queue_serves_in_the_order_of_arrival():
    env, served = simpy.Environment(), []
    queue = Queue(env)

    def customer(name: str):
        acquired = queue.acquire()
        if acquired is not None:
            yield acquired
        yield env.timeout(1.0)
        served.append((name, env.now))
        queue.release()

    for name in "abc":
        env.process(customer(name))
    env.run()
    assert served == [("a", 1.0), ("b", 2.0), ("c", 3.0)]
    assert queue.acquire() is None


@pytest.mark.parametrize("seed", range(20))
def test_gpus_of_equal_hosts_end_at_once_in_order_of_their_numbers(seed):
    """Whether each kernel runs apart or all in one go, and whichever GPU begins first: to the last bit."""
    draws = np.random.default_rng(seed)
    speeds, orders, found = draws.uniform(0.6, 0.9, 4), [draws.permutation(4) for _ in range(2)], []
    issue = IssueBuilder()
    for _ in range(5):
        issue.add(draws.uniform(1e-4, 2e-4), PassIssue(3e-4, 7))
    issue.call(45e-6)
    times, host_s = issue.build(), draws.uniform(1.0, 2.0)
    for each, order in zip((True, False), orders, strict=True):
        env, ended = simpy.Environment(host_s), []
        cluster = load_topology(
            {"kind": "star", "num_hosts": 4, "host": {"gpu": "k20x", "num_gpus": 1}, "link": "1 GB/s", "hop": "0 s"}
        )
        network = Network(env, cluster)

        def run(number, slowdown, env=env, network=network, ended=ended, each=each):
            gpu = GpuDevice(env, network, number)
            yield from gpu.compute_issued(issue.work_s, slowdown, times, host_s, each)
            ended.append((number, env.now))

        for number in order.tolist():
            env.process(run(number, float(speeds[number])))
        env.run()
        found.append(ended)
    assert found[0] == found[1] == [(number, host_s + times.host_s) for number in range(4)]
