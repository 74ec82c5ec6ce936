"""Hosts whose adapters NCCL treats as one: its channels use one per socket, and messages use each GPU's own."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.communicator.algorithm import schedule_collective
from clustersim.hardware import load_transport
from clustersim.simulate.build import build_network
from clustersim.topology import Topology, load_topology
from clustersim.topology.adapters import one_adapter_per_socket

OMNI_PATH = load_transport("nccl-omni-path")
PORT = 12.5e9


def hosts(num_hosts: int, **host: object) -> Topology:
    template = {"template": "dgx-a100", "nics": 4} | host
    return load_topology({"kind": "star", "num_hosts": num_hosts, "link": "100 Gbit/s", "hop": "0 s", "host": template})


def test_channels_leave_and_enter_by_the_adapter_of_the_first_gpu_of_a_socket_and_messages_by_their_own() -> None:
    plain = hosts(2)
    seen = one_adapter_per_socket(plain)
    assert seen is one_adapter_per_socket(plain)
    gpus = plain.gpus.tolist()
    for src, dst in ((1, 9), (3, 14), (7, 8), (4, 12)):
        instead = src // 4 * 4, dst // 4 * 4
        assert (
            seen.channel_route(gpus[src], gpus[dst]).tolist() == plain.route(*(gpus[end] for end in instead)).tolist()
        )
        assert seen.route(gpus[src], gpus[dst]).tolist() == plain.route(gpus[src], gpus[dst]).tolist()
        assert plain.channel_route(gpus[src], gpus[dst]).tolist() == plain.route(gpus[src], gpus[dst]).tolist()
    src, dst = (ends.ravel() for ends in np.meshgrid(plain.gpus, plain.gpus))
    one_by_one = [seen.channel_route(*pair).tolist() for pair in zip(src.tolist(), dst.tolist(), strict=True)]
    assert seen.channel_routes(src, dst).links.tolist() == [link for route in one_by_one for link in route]


def test_within_a_host_and_from_memory_to_memory_channels_are_unchanged() -> None:
    plain = hosts(2)
    seen = one_adapter_per_socket(plain)
    for src, dst in ((plain.gpus[1], plain.gpus[6]), (plain.memory[0], plain.memory[9])):
        assert seen.channel_route(int(src), int(dst)).tolist() == plain.route(int(src), int(dst)).tolist()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("num_groups", "bytes_per_s"), [(1, 5.06e9), (2, 5.06e9), (4, PORT / 4)])
def test_parallel_groups_share_one_adapter(num_groups: int, bytes_per_s: float, exact: bool) -> None:
    """Each of k groups of one GPU a socket and host gathers b bytes in (n - 1) / n b / min(C, B / k), latency aside."""
    cluster, num_bytes, env = hosts(2), 1e9, simpy.Environment()
    network = build_network(env, cluster, OMNI_PATH, exact)
    over = []
    for first in range(num_groups):
        gpus = np.array([first, first + 4, first + 8, first + 12])
        _, schedule = schedule_collective("all-gather", "ring", cluster, gpus, num_bytes, OMNI_PATH.library)
        over.append(network.play(schedule, gpus.tolist()))
    env.run(env.all_of(over))
    assert env.now == pytest.approx(3 / 4 * num_bytes / bytes_per_s, rel=1e-3)


def test_one_gpu_a_group_has_the_adapter_of_its_socket() -> None:
    """Eight groups, as with eight GPUs per tensor parallel group: four of them use one adapter, four the other."""
    cluster, num_bytes, env = hosts(2), 1e9, simpy.Environment()
    network = build_network(env, cluster, OMNI_PATH, exact=False)
    over = []
    for first in range(8):
        gpus = np.array([first, first + 8])
        _, schedule = schedule_collective("all-gather", "ring", cluster, gpus, num_bytes, OMNI_PATH.library)
        over.append(network.play(schedule, gpus.tolist()))
    env.run(env.all_of(over))
    assert env.now == pytest.approx(1 / 2 * num_bytes / (PORT / 4), rel=1e-3)


def test_messages_from_gpu_to_gpu_have_all_adapters() -> None:
    """Eight at once have 5.06 GB/s each, two on every adapter."""
    cluster, num_bytes, env = hosts(2), 1e9, simpy.Environment()
    network = build_network(env, cluster, OMNI_PATH, exact=False)
    env.run(env.all_of([network.transfer(gpu, gpu + 8, num_bytes) for gpu in range(8)]))
    assert env.now == pytest.approx(num_bytes / 5.06e9, rel=1e-3)
