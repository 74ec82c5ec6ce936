"""Processes of hosts: their threads carry what they receive and send."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from clustersim.topology import Topology, load_topology
from clustersim.topology.processes import Processes, Threads, with_processes

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2680-v3"}
PLAIN = load_topology({"kind": "star", "num_hosts": 2, "link": "2 GB/s", "hop": "1 us", "host": HOST})


def cluster(num_threads: int = 1) -> tuple[Topology, Processes]:
    made = with_processes(PLAIN, Threads(num_threads, 0.9e9, 2.5e9))
    assert made.processes is not None
    return made, made.processes


def kinds(made: Topology, src: int, dst: int) -> list[str]:
    return [made.links.kind[link] for link in made.route(src, dst).tolist()]


def test_a_message_uses_the_route_between_memories_and_a_thread_at_each_end():
    made, processes = cluster()
    near, far = int(processes.of_gpus[0]), int(processes.of_gpus[7])
    server = processes.servers[int(PLAIN.memory[0])]
    assert kinds(made, near, server) == ["process-out", "process-in"]  # in one memory
    between = PLAIN.route(int(PLAIN.memory[7]), int(PLAIN.memory[0])).tolist()
    assert made.route(far, server).tolist()[1:-1] == between
    assert made.route(far, far).tolist() == []
    gpu, memory = int(PLAIN.gpus[0]), int(PLAIN.memory[0])
    assert made.route(gpu, memory).tolist() == PLAIN.route(gpu, memory).tolist()


def test_a_thread_is_one_link_for_all_that_its_process_receives_or_sends():
    made, processes = cluster()
    server = processes.servers[int(PLAIN.memory[0])]
    into = {int(made.route(int(worker), server)[-1]) for worker in processes.of_gpus}
    out = {int(made.route(server, int(worker))[0]) for worker in processes.of_gpus}
    assert [made.links.bytes_per_s[links.pop()] for links in (into, out)] == [0.9e9, 2.5e9]
    assert (into, out) == (set(), set())


def test_the_other_processes_are_assigned_to_threads_in_turn():
    made, processes = cluster(num_threads=3)
    server = processes.servers[int(PLAIN.memory[0])]
    into = [int(made.route(int(worker), server)[-1]) for worker in processes.of_gpus]
    assert [into.index(link) for link in into] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_servers_are_assigned_by_their_hosts():
    """Servers are usually in the first memory of each host, and two sockets must not leave every second thread idle."""
    made, processes = cluster(num_threads=2)
    worker, first = int(processes.of_gpus[3]), [processes.servers[int(PLAIN.memory[gpu])] for gpu in (0, 4)]
    assert made.route(first[0], worker)[-1] != made.route(first[1], worker)[-1]


def test_all_gpus_of_a_host_may_be_one_process_wherever_their_memory_is():
    made, processes = cluster()
    workers, server = processes.of_hosts.tolist(), processes.servers[int(PLAIN.memory[7])]
    assert [workers.index(node) for node in workers] == [0, 0, 2, 2, 4, 4, 6, 6]  # two sockets a host
    assert (
        made.route(server, workers[0])[-1] == made.route(server, workers[2])[-1] != made.route(server, workers[4])[-1]
    )
    inside = PLAIN.route(int(PLAIN.memory[0]), int(PLAIN.memory[2])).tolist()
    assert made.route(workers[0], workers[2]).tolist() == inside  # from socket to socket, by no thread


def test_reduction_in_a_process_is_reduction_in_its_memory():
    made, processes = cluster()
    memory = int(PLAIN.memory[5])
    for node in (int(processes.of_gpus[5]), processes.servers[memory]):
        assert made.adders[node] == PLAIN.adders[memory]
        assert made.core_bytes_per_s(node) == PLAIN.core_bytes_per_s(memory)
        assert made.node_hosts[node] == 1


@pytest.mark.parametrize("num_threads", [1, 3])
def test_many_routes_equal_single_routes(num_threads):
    made, processes = cluster(num_threads)
    nodes = [*processes.of_gpus, *processes.of_hosts, *processes.servers.values(), *PLAIN.gpus, *PLAIN.memory]
    src, dst = np.array(list(product(nodes, nodes))).T
    many = made.routes(src, dst)
    assert many.links.tolist() == [link for pair in zip(src, dst, strict=True) for link in made.route(*map(int, pair))]


@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_thread_that_receives_sends_its_process_over_its_own_link_only(num_threads):
    made = with_processes(PLAIN, Threads(num_threads, 0.9e9, 2.5e9, half_rate_bytes=100e6))
    processes = made.processes
    assert processes is not None
    assert processes.receiving is not None
    nodes = np.array([*processes.of_gpus, *processes.of_hosts, *processes.servers.values(), *PLAIN.gpus])
    src, dst = np.array(list(product(nodes, nodes))).T
    threads = processes.receiving.nodes(src, dst)
    for start, end, thread in zip(src.tolist(), dst.tolist(), threads.tolist(), strict=True):
        taken_in = [link for link in made.route(start, end).tolist() if made.links.kind[link] == "process-in"]
        assert ([] if thread < 0 else made.route(thread, end).tolist()) == taken_in
    there = threads >= 0
    both = np.concatenate([src, threads[there]]), np.concatenate([dst, dst[there]])
    many = made.routes(*both)
    assert many.links.tolist() == [link for pair in zip(*both, strict=True) for link in made.route(*map(int, pair))]
    assert made.node_hosts[threads[there]].tolist() == made.node_hosts[dst[there]].tolist()


def test_there_are_no_thread_nodes_if_all_messages_have_one_rate():
    made, processes = cluster()
    assert processes.receiving is None
    assert len(made.node_names) == len(made.node_kinds) == len(made.node_hosts)
    assert not [name for name in made.node_names if "thread" in str(name)]


def test_gpus_without_a_host_are_separate_processes():
    bare = load_topology({"kind": "star", "num_hosts": 3, "link": "2 GB/s", "hop": "1 us"})
    made = with_processes(bare, Threads(1, 0.9e9, 2.5e9))
    assert made.processes is not None
    assert len(set(made.processes.of_hosts.tolist())) == 3
