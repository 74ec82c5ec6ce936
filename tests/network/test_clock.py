"""The network is simulated ahead of SimPy's clock, and gives the times of SimPy."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.collectives import ALL_REDUCE
from clustersim.errors import InputError
from clustersim.network import Network
from clustersim.topology import load_topology

from .clusters import line, star

pytestmark = pytest.mark.usefixtures("engine")


def network_on(graph, env: simpy.Environment | None = None) -> Network:
    return Network(env or simpy.Environment(), load_topology(graph))


def test_a_process_sees_the_bytes_that_have_moved_by_its_time():
    network = network_on(star(2, latency_s=0.0))
    for size in (1e9, 2e9, 3e9):
        network.transfer(0, 1, size)
    seen = []

    def look(env: simpy.Environment):
        for _ in range(7):
            yield env.timeout(1.0)
            seen.append(float(network.link_bytes.max()))

    network.env.run(network.env.process(look(network.env)))
    assert seen == pytest.approx([1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 6e9], rel=1e-12)  # they share 1 GB/s for 6 s


def test_a_message_in_the_middle_of_a_collective_slows_it_from_then_on():
    def ring_end_s(beside: bool) -> float:
        network = network_on(line(4))
        ring = network.play(ALL_REDUCE["ring"](4, 4e9), range(4))

        def send(env: simpy.Environment):
            yield env.timeout(2.5)
            yield network.transfer(0, 1, 1e9)

        if beside:
            network.env.process(send(network.env))
        return float(network.env.run(ring).end_s.max())

    assert ring_end_s(beside=False) == pytest.approx(6.0, rel=1e-9)
    assert ring_end_s(beside=True) == pytest.approx(7.0, rel=1e-9)


def test_networks_on_one_clock_do_not_disturb_each_other():
    env = simpy.Environment()
    networks = [network_on(star(6), env) for _ in range(2)]
    delay = np.random.default_rng(1).exponential(1e-3, (6, 10))
    together = [network.play(ALL_REDUCE["ring"](6, 1e6), range(6), delay_s=delay) for network in networks]
    env.run()
    lone_network = network_on(star(6))
    expected = lone_network.env.run(lone_network.play(ALL_REDUCE["ring"](6, 1e6), range(6), delay_s=delay)).end_s
    for event in together:
        assert event.value.end_s == pytest.approx(expected, rel=1e-12)


def test_running_until_a_time_stops_there_and_goes_on_from_there():
    network = network_on(star(3, latency_s=0.0))
    early = network.transfer(0, 2, 1e9)
    network.env.run(until=0.5)
    late = network.transfer(1, 2, 1e9)
    network.env.run()
    assert (early.value.end_s, late.value.end_s) == pytest.approx((1.5, 2.0), rel=1e-12)


def test_an_event_fires_at_the_time_that_its_value_says():
    network = network_on(star(5))
    fired = []

    def wait(event: simpy.Event):
        times = yield event
        fired.append((network.env.now, times.end_s))

    for number, size in enumerate([1e6, 3e6, 7e5, 1.0]):
        network.env.process(wait(network.transfer(number, 4, size)))
    network.env.run()
    assert len(fired) == 4
    for now, end_s in fired:
        assert now == pytest.approx(end_s, rel=1e-12)


def test_acting_behind_the_networks_back_is_refused():
    network = network_on(star(2))
    network.transfer(0, 1, 1e6)
    network.env.step()  # the network has looked ahead to the end of the transfer
    with pytest.raises(InputError, match=r"simulated up to 0\.001.* act from a process"):
        network.transfer(1, 0, 1e6)


def test_a_byte_and_a_terabyte_beside_each_other_both_end_in_time():
    network = network_on(star(3, latency_s=0.0))
    env = network.env

    def small(env: simpy.Environment):
        yield env.timeout(900.0)
        return (yield network.transfer(1, 2, 1.0))

    large, process = network.transfer(0, 2, 1e12), env.process(small(env))
    env.run()
    assert process.value.end_s == pytest.approx(900.0 + 2e-9, rel=1e-15)
    assert large.value.end_s == pytest.approx(1000.0 + 1e-9, rel=1e-15)


def test_rates_a_thousand_million_apart_do_not_hang_the_clock():
    graph = star(3, latency_s=0.0)
    graph.edges["switch", "gpu2"]["bytes_per_s"] = 1.0
    network = network_on(graph)
    slow, fast = network.transfer(0, 2, 1e3), network.transfer(0, 1, 1e12)
    network.env.run()
    assert (slow.value.end_s, fast.value.end_s) == pytest.approx((1000.0, 1000.000001), rel=1e-9)


def test_ten_thousand_messages_that_end_together_are_one_instant():
    network = network_on(star(10, latency_s=0.0))
    sent = [network.transfer(number % 5, 5 + number % 5, 1e6) for number in range(10_000)]
    network.env.run()
    assert {event.value.end_s for event in sent} == {sent[0].value.end_s}
    assert sent[0].value.end_s == pytest.approx(2.0, rel=1e-9)
    assert network.counts.instants == 2


def test_what_hosts_are_called_changes_nothing():
    def end_s(order: list[int]) -> np.ndarray:
        network = network_on(star(6))
        delay = np.random.default_rng(2).exponential(1e-3, (6, 10))
        return np.asarray(network.env.run(network.play(ALL_REDUCE["ring"](6, 1e7), order, delay_s=delay)).end_s)

    assert (end_s([3, 1, 5, 0, 2, 4]) == end_s([0, 1, 2, 3, 4, 5])).all()
