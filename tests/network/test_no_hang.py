"""Numbers far apart, and very many things at once, neither stop the clock nor are lost in rounding."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.collectives import ALL_REDUCE

from .clusters import make_network, star

pytestmark = pytest.mark.usefixtures("engine", "shared_by")


@pytest.mark.parametrize("sharing", ["max-min", "proportional"])
def test_a_byte_and_a_terabyte_that_start_together_end_in_time(sharing):
    network = make_network(star(3, latency_s=0.0), sharing=sharing)
    times = network.env.run(network.transfers([0, 1], [2, 2], [1.0, 1e12]))
    assert times.end_s == pytest.approx([2e-9, 1000.0 + 1e-9], rel=1e-12)


def test_a_byte_that_starts_late_ends_though_the_clock_can_hardly_tell():
    network = make_network(star(3, latency_s=0.0))
    times = network.env.run(network.transfers([0, 1], [2, 2], [1e18, 1.0], start_s=[0.0, 9e8]))
    assert times.end_s[1] - 9e8 == pytest.approx(2e-9, abs=2e-7)
    assert times.end_s[0] == pytest.approx(1e9, rel=1e-12)


def test_a_hundred_thousand_simultaneous_finishes_are_one_instant():
    network = make_network(star(10, latency_s=0.0))
    src = np.arange(100_000) % 5
    times = network.env.run(network.transfers(src, src + 5, 1e6))
    assert np.unique(times.end_s) == pytest.approx([20.0], rel=1e-9)
    assert network.counts.instants == 2


def test_twenty_thousand_that_follow_one_another_need_no_solve():
    network = make_network(star(2, latency_s=0.0))
    start_s = np.arange(20_000) * 2e-3
    times = network.env.run(network.transfers(np.zeros(20_000, int), np.ones(20_000, int), 1e6, start_s=start_s))
    assert np.abs(times.end_s - start_s - 1e-3).max() < 1e-10
    assert network.counts.solves == 0


def test_no_bytes_and_no_latency_take_no_time_however_often():
    network = make_network(star(4, latency_s=0.0))

    def chain():
        for number in range(3000):
            yield network.transfer(number % 4, (number + 1) % 4, 0.0)

    network.env.run(network.env.process(chain()))
    times = network.env.run(network.play(ALL_REDUCE["ring"](4, 0.0), range(4)))
    assert network.env.now == times.end_s.max() == 0.0


@pytest.mark.parametrize("sharing", ["max-min", "proportional"])
def test_rates_a_thousand_million_apart_beside_each_other_are_exact(sharing):
    graph = star(4, bytes_per_s=1e12, latency_s=0.0)
    graph.edges["gpu0", "switch"]["bytes_per_s"] = 1e3
    network = make_network(graph, sharing=sharing)
    slow, fast = network.transfers([0], [3], 1e6), network.transfers([1, 2], [3, 3], 1e12)
    network.env.run()
    assert slow.value.end_s == pytest.approx([1000.0], rel=1e-9)
    assert fast.value.end_s == pytest.approx([2.0, 2.0], rel=1e-8)


def test_weights_a_thousand_million_apart_are_exact():
    network = make_network(star(3, latency_s=0.0))
    times = network.env.run(network.transfers([0, 1], [2, 2], [1e9, 1e9], weight=[1e9, 1.0]))
    assert times.end_s == pytest.approx([1.0 + 1e-9, 2.0], rel=1e-12)
