"""Eager messages leave with their sender and wait for their receiver, in little memory however many do."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE, COLLECTIVES, Schedule, Transfer
from clustersim.errors import InputError
from clustersim.topology import load_topology

from .clusters import line, make_network, star

pytestmark = pytest.mark.usefixtures("engine")

STEP_S = 2e-6 + 1e-3  # of a message of 1 MB over a star
WIDE = load_topology(star(8, bytes_per_s=1e15))
LINE = load_topology(line(4))


def one_way(num_steps: int, num_bytes: float = 1e6) -> Schedule:
    """Return messages from rank 0 to rank 1, one a step."""
    return Schedule.repeat(num_steps, np.array([0]), np.array([1]), num_bytes, lambda step: np.array([0]), bool)


@pytest.mark.parametrize(
    ("eager_bytes", "sender_ends_s"), [(0.0, 1 + 3 * STEP_S), (0.5e6, 1 + 3 * STEP_S), (1e6, 3 * STEP_S)]
)
def test_a_sender_waits_for_its_receiver_only_with_messages_above_the_threshold(eager_bytes, sender_ends_s):
    network = make_network(star(2), eager_bytes=eager_bytes)
    times = network.env.run(network.play(one_way(3), [0, 1], enter_s=[0.0, 1.0]))
    assert times.end_s[0] == pytest.approx(sender_ends_s, rel=1e-12)
    assert times.end_s[1] == pytest.approx(1.0 if eager_bytes == 1e6 else 1 + 3 * STEP_S, rel=1e-12)


def test_a_receiver_that_is_early_waits_for_the_message():
    network = make_network(star(2), eager_bytes=1e6)
    times = network.env.run(network.play(one_way(1), [0, 1], enter_s=[1.0, 0.0]))
    assert times.end_s == pytest.approx([1 + STEP_S, 1 + STEP_S], rel=1e-12)


def test_what_has_arrived_is_added_when_its_receiver_comes():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    adding_s = 3e8 / float(cluster.links.bytes_per_s[cluster.adders[int(cluster.gpus[1])]])
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1e8, reduce=True)])
    network = make_network(cluster, adds=True, eager_bytes=1e8)
    times = network.env.run(network.play(schedule, [0, 1], enter_s=[0.0, 1.0]))
    alone = make_network(cluster).env
    assert times.end_s[0] == pytest.approx(0.1, rel=1e-9)
    assert times.end_s[1] == pytest.approx(1.0 + adding_s, rel=1e-12)
    assert alone.now == 0.0


@given(num_ranks=st.sampled_from([2, 3, 5, 8]), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_jittered_eager_ring_follows_its_recurrence(num_ranks, seed):
    """A rank goes on when it has sent, and when it is there and its left neighbour has sent to it."""
    rng = np.random.default_rng(seed)
    schedule = ALL_REDUCE["ring"](num_ranks, 1e6)
    ready = enter = rng.exponential(1e-3, num_ranks)
    delay = rng.exponential(3e-4, (num_ranks, schedule.num_steps))
    for step in range(schedule.num_steps):
        begin = ready + delay[:, step]
        sent = begin + 2e-6 + 1e6 / num_ranks / 1e9
        ready = np.maximum(sent, np.maximum(begin, np.roll(sent, 1)))
    network = make_network(star(num_ranks), eager_bytes=1e6)
    result = network.env.run(network.play(schedule, range(num_ranks), enter_s=enter, delay_s=delay))
    assert result.end_s == pytest.approx(ready, rel=1e-12)


@given(
    operation=st.sampled_from([(op, name) for op, table in COLLECTIVES.items() for name in table]),
    seed=st.integers(0, 1000),
    skewed=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_nobody_ends_later_for_not_waiting_and_multiplied_steps_are_the_same(operation, seed, skewed):
    """On a star with room for all, where not waiting takes no bandwidth from others."""
    schedule = COLLECTIVES[operation[0]][operation[1]](4, 1e6)
    enter = np.random.default_rng(seed).exponential(1e-3 if skewed else 0.0, schedule.num_ranks)

    def end_s(**options) -> np.ndarray:
        network = make_network(WIDE, **options)
        return network.env.run(network.play(schedule, range(schedule.num_ranks), enter_s=enter)).end_s

    eager = end_s(eager_bytes=1e6, exact=True)
    assert end_s(eager_bytes=1e6) == pytest.approx(eager, rel=1e-12)
    assert (eager <= end_s() + 1e-7).all()  # a message is 1 ns on the wire


@given(seed=st.integers(0, 1000), eager_bytes=st.sampled_from([2e5, 6e5, 1e6]))
@settings(max_examples=40, deadline=None)
def test_every_byte_of_any_schedule_arrives(seed, eager_bytes):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, [5, 4, 4], (12, 3)).tolist()
    rows = [Transfer(*row, num_bytes) for row, num_bytes in zip(numbers, rng.choice([0, 3e5, 1e6], 12), strict=True)]
    schedule = Schedule.from_transfers(rows, num_ranks=4)
    network = make_network(LINE, eager_bytes=eager_bytes)
    delay = rng.exponential(1e-3, (4, schedule.num_steps))
    times = network.env.run(network.play(schedule, range(4), enter_s=rng.exponential(1e-2, 4), delay_s=delay))
    assert np.isfinite(times.end_s).all()
    expected = np.zeros(len(network.topology.links))
    for row in rows:
        expected[network.topology.route(*network.topology.gpus[[row.src, row.dst]].tolist())] += row.num_bytes
    assert network.link_bytes == pytest.approx(expected)
    assert not network.stuck()


def test_a_receiver_catches_up_with_thousands_of_steps_at_once():
    network = make_network(star(2), eager_bytes=1e6)
    times = network.env.run(network.play(one_way(5000), [0, 1], enter_s=[0.0, 100.0]))
    assert times.end_s == pytest.approx([5000 * STEP_S, 100.0], rel=1e-9)


def test_memory_does_not_grow_with_the_steps_that_a_sender_is_ahead():
    def peak_bytes(ahead_s: float) -> int:
        network = make_network(star(2), eager_bytes=1e6, exact=True)
        schedule = one_way(4000)
        network.env.run(network.play(schedule, [0, 1]))
        now_s = network.env.now
        done = network.play(schedule, [0, 1], enter_s=[now_s + 1.0, now_s + 1.0 + ahead_s])
        tracemalloc.start()
        network.env.run(done)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(0.0)  # what is loaded on first use
    assert peak_bytes(1e3) < 1.5 * peak_bytes(0.0)


def test_a_threshold_below_zero_is_refused():
    with pytest.raises(InputError, match=r"eager_bytes must be a number of at least 0 \(got -1\)"):
        make_network(star(2), eager_bytes=-1)
