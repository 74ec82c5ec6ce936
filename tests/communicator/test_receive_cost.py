"""The time that a thread takes to receive a message grows with the square of its size."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.collectives import Schedule, Step
from clustersim.communicator.receive_cost import with_receive_cost
from clustersim.network import Network
from clustersim.topology import Node, Topology, load_topology
from clustersim.topology.processes import Threads, with_processes

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2680-v3"}
PLAIN = load_topology({"kind": "star", "num_hosts": 2, "link": "2 GB/s", "hop": "1 us", "host": HOST})
RATE, HALF_RATE_BYTES = 0.5e9, 100e6


def simulated_s(made: Topology, senders: list[int], sizes: list[float], engine: str | None = None) -> np.ndarray:
    """Return when these processes have sent messages of these sizes to their host's server, and when it has them."""
    assert made.processes is not None
    nodes = [*(int(made.processes.of_gpus[gpu]) for gpu in senders), made.processes.servers[int(PLAIN.memory[0])]]
    push = Step.of(range(len(senders)), len(senders), sizes)
    (steps,), threads = with_receive_cost([push], nodes, made)
    schedule = Schedule.from_steps(len(nodes) + len(threads), steps)
    network = Network(simpy.Environment(), made, engine=engine)
    places = [Node(node) for node in [*nodes, *threads]]
    end_s: np.ndarray = network.env.run(network.play(schedule, places)).end_s
    return end_s[: len(nodes)]


@pytest.mark.parametrize("engine", ["python", "numba"])
@pytest.mark.parametrize("sizes", [[1e6], [100e6], [400e6], [100e6, 100e6], [50e6, 200e6]])
def test_a_thread_is_busy_for_the_linear_and_the_quadratic_part(sizes, engine):
    """Senders are done when all has been sent, and the receiver when the thread has also done its quadratic work."""
    made = with_processes(PLAIN, Threads(1, RATE, 100e9, HALF_RATE_BYTES))
    end_s = simulated_s(made, [0, 1][: len(sizes)], sizes, engine)
    assert max(end_s[:-1]) == pytest.approx(sum(sizes) / RATE)
    assert end_s[-1] == pytest.approx(sum(size * (1 + size / HALF_RATE_BYTES) for size in sizes) / RATE)


def test_a_message_of_that_size_is_received_at_half_the_rate():
    made = with_processes(PLAIN, Threads(1, RATE, 100e9, HALF_RATE_BYTES))
    assert simulated_s(made, [0], [HALF_RATE_BYTES])[-1] == pytest.approx(2 * HALF_RATE_BYTES / RATE)


def test_each_thread_receives_its_own_messages():
    made = with_processes(PLAIN, Threads(2, RATE, 100e9, HALF_RATE_BYTES))
    assert simulated_s(made, [0, 1], [100e6, 100e6])[-1] == pytest.approx(2 * 100e6 / RATE)
    assert simulated_s(made, [0, 2], [100e6, 100e6])[-1] == pytest.approx(4 * 100e6 / RATE)  # both on the first


def test_nothing_is_added_where_all_messages_are_received_at_one_rate():
    made = with_processes(PLAIN, Threads(1, RATE, 100e9))
    assert simulated_s(made, [0], [400e6])[-1] == pytest.approx(400e6 / RATE)
    push = Step.of([0], [1], 1e6)
    assert with_receive_cost([push], [0, 1], PLAIN) == ([[push]], [])


def test_messages_inside_a_process_cost_no_thread_anything():
    made = with_processes(PLAIN, Threads(1, RATE, 100e9, HALF_RATE_BYTES))
    assert made.processes is not None
    first, second = (int(made.processes.of_hosts[gpu]) for gpu in (0, 2))
    inside = Step.of([0], [1], 1e6)
    assert with_receive_cost([inside], [first, second], made) == ([[inside]], [])
