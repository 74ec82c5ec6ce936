"""Multiplying the steps of a collective gives what playing them all gives."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_GATHER, ALL_REDUCE, Schedule
from clustersim.network import Network
from clustersim.topology import Topology, load_topology

from .clusters import line, star

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1}
CLUSTERS = {
    "star": load_topology(star(12)),
    "line": load_topology(line(12)),
    "torus": load_topology({"kind": "torus", "dims": [3, 2, 2], "link": "7 GB/s", "hop": "1 us"}),
    "hosts": load_topology({"kind": "star", "num_hosts": 3, "link": "1 GB/s", "hop": "1 us", "host": HOST}),
}
SCHEDULES = {
    "ring": ALL_REDUCE["ring"](12, 1.2e7),
    "twice": Schedule.concatenate([ALL_REDUCE["ring"](12, 1.2e7), ALL_REDUCE["ring"](12, 2.4e6)]),
    "gather": ALL_GATHER["ring"](12, 1e6),
    "doubling": ALL_REDUCE["doubling"](12, 1e7),
    "sharded": ALL_REDUCE["sharded-server"](12, 1e6),
}


def ring_of(num_ranks: int, exact: bool, cluster: Topology | None = None, **options) -> tuple[np.ndarray, Network]:
    network = Network(simpy.Environment(), cluster or load_topology(star(num_ranks)), exact=exact)
    times = network.env.run(network.play(ALL_REDUCE["ring"](num_ranks, 1e8), range(num_ranks), **options))
    return times.end_s, network


@given(
    cluster=st.sampled_from(sorted(CLUSTERS)),
    name=st.sampled_from(sorted(SCHEDULES)),
    seed=st.integers(0, 1000),
    skewed=st.booleans(),
    adds=st.booleans(),
    beside=st.lists(st.tuples(st.floats(0, 0.03), st.integers(0, 11), st.floats(0, 2e7)), max_size=3),
)
@settings(max_examples=120, deadline=None)
def test_multiplied_steps_end_when_played_ones_do(cluster, name, seed, skewed, adds, beside):
    """Whatever the skew of entries, and whoever comes in between."""
    rng = np.random.default_rng(seed)
    enter = rng.exponential(1e-3, 12) if skewed else np.zeros(12)

    def results(exact: bool) -> np.ndarray:
        network = Network(simpy.Environment(), CLUSTERS[cluster], overhead_s=1e-6, adds=adds, exact=exact)
        env = network.env

        def send(start_s: float, src: int, num_bytes: float):
            yield env.timeout(start_s)
            return (yield network.transfer(src, (src + 5) % 12, num_bytes)).end_s

        sent = [env.process(send(*message)) for message in beside]
        first = network.play(SCHEDULES[name], range(12), enter_s=enter)
        second = network.play(SCHEDULES[name], range(12), enter_s=enter + 0.02)
        env.run()
        ends = [*first.value.end_s, *second.value.end_s, *(process.value for process in sent)]
        return np.concatenate([ends, network.link_bytes])

    assert results(exact=False) == pytest.approx(results(exact=True), rel=1e-9)


@pytest.mark.parametrize("num_ranks", [16, 64])
def test_a_ring_in_lock_step_plays_a_few_steps_and_multiplies_the_rest(num_ranks):
    ends, network = ring_of(num_ranks, exact=False)
    played, all_of_it = network.counts.flows, num_ranks * 2 * (num_ranks - 1)
    assert played <= 5 * num_ranks
    assert network.shortcuts == (
        f"steps of collectives multiplied: {(all_of_it - played) // num_ranks} repeated the one before to 1e-12",
    )
    assert ends == pytest.approx(ring_of(num_ranks, exact=True)[0], rel=1e-12)


def test_exact_plays_every_message_and_says_of_no_shortcut():
    _, network = ring_of(16, exact=True)
    assert network.counts.flows == 16 * 30
    assert network.shortcuts == ()


def test_ranks_that_drift_apart_over_unequal_routes_still_repeat():
    ends, network = ring_of(12, exact=False, cluster=CLUSTERS["torus"])
    assert network.counts.flows < 12 * 22 / 2
    assert ends == pytest.approx(ring_of(12, exact=True, cluster=CLUSTERS["torus"])[0], rel=1e-12)


def test_pauses_are_played():
    delay = np.random.default_rng(0).exponential(1e-4, (16, 30))
    _, network = ring_of(16, exact=False, delay_s=delay)
    assert network.counts.flows == 16 * 30


def test_a_step_that_somebody_waits_for_is_told_in_time():
    def reached_s(exact: bool) -> list[float]:
        network = Network(simpy.Environment(), CLUSTERS["star"], exact=exact)
        collective = network.begin(SCHEDULES["ring"], range(12))
        collective.enter(*range(12))
        return [network.env.run(collective.reached(5, step)) or network.env.now for step in (3, 11, 17, 22)]

    assert reached_s(exact=False) == pytest.approx(reached_s(exact=True), rel=1e-12)
    assert len(set(reached_s(exact=False))) == 4


def test_a_process_that_looks_in_between_sees_the_bytes_of_its_time():
    def seen(exact: bool) -> list[float]:
        network = Network(simpy.Environment(), CLUSTERS["star"], exact=exact)
        ring = network.play(SCHEDULES["ring"], range(12))
        bytes_seen = []

        def look(env: simpy.Environment):
            for _ in range(9):
                yield env.timeout(2.345e-3)
                bytes_seen.append(float(network.link_bytes.sum()))

        network.env.run(network.env.process(look(network.env)) & ring)
        return bytes_seen

    assert seen(exact=False) == pytest.approx(seen(exact=True), rel=1e-12)
    assert len(set(seen(exact=False))) == 9
