"""Processes on a network's inner clock do what they would do on SimPy's, in the same order and at the same times."""

from __future__ import annotations

from typing import Any

import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustersim.network import Environment, Network

from .clusters import make_network, star

MOMENTS = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1e-3])  # many of them at one time
DEEDS = st.one_of(
    st.tuples(st.just("wait"), MOMENTS),
    st.tuples(st.just("send"), st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 1e6, 2.5e8])),
    st.tuples(st.just("add"), st.integers(0, 3)),
    st.tuples(st.just("fire"), st.integers(0, 2)),
    st.tuples(st.just("await"), st.integers(0, 2)),
    st.tuples(st.just("spawn"), MOMENTS),
    st.tuples(st.just("queue"), MOMENTS),
)
PROGRAMS = st.lists(st.lists(DEEDS, max_size=6), min_size=1, max_size=4)
Log = list[tuple[float, int, int]]


class Doing:
    """Some processes at their deeds; what they have done and when stands in `log`."""

    def __init__(self, network: Network, clock: simpy.Environment):
        self.network, self.clock = network, clock
        self.log: Log = []
        self.signals = [clock.event() for _ in range(3)]
        self.turns = simpy.Resource(clock, capacity=1)

    def live(self, number: int, deeds: list[Any]):
        for place, deed in enumerate(deeds):
            yield from getattr(self, deed[0] + "_")(*deed[1:])
            self.log.append((self.clock.now, number, place))

    def wait_(self, seconds: float):
        yield self.clock.timeout(seconds)

    def send_(self, src: int, dst: int, num_bytes: float):
        yield self.network.transfer(src, dst, num_bytes)

    def add_(self, node: int):
        yield self.network.add(node, 1e6)

    def fire_(self, number: int):
        if not self.signals[number].triggered:
            self.signals[number].succeed()
        yield from ()

    def await_(self, number: int):
        yield self.signals[number] | self.clock.timeout(0.75)

    def spawn_(self, seconds: float):
        yield self.clock.process(self.wait_(seconds))

    def queue_(self, seconds: float):
        with self.turns.request() as turn:
            yield turn
            yield self.clock.timeout(seconds)


def played(programs: list[list[Any]], inside: bool, engine: str = "python") -> tuple[Log, float]:
    network = make_network(star(4), engine=engine)
    doing = Doing(network, network.inner_clock if inside else network.env)
    lives = [doing.clock.process(doing.live(number, deeds)) for number, deeds in enumerate(programs)]
    over = doing.clock.all_of(lives)
    network.env.run(network.inner_clock.outside(over) if inside else over)
    return doing.log, network.env.now


@given(programs=PROGRAMS)
@settings(max_examples=80, deadline=None)
def test_processes_go_through_their_days_as_they_would_on_simpys_clock(programs):
    (inside, end_s), (outside, there_s) = (played(programs, where) for where in (True, False))
    assert [row[1:] for row in inside] == [row[1:] for row in outside]
    assert [row[0] for row in inside] == pytest.approx([row[0] for row in outside], rel=1e-12)
    assert end_s == pytest.approx(there_s, rel=1e-12)


@given(programs=PROGRAMS)
@example(programs=[[("fire", 0), ("await", 0)]])  # over at once, while a time is still to come
@settings(max_examples=15, deadline=None)
def test_the_compiled_side_plays_them_at_the_same_times(programs):
    (python, end_s), (numba, there_s) = (played(programs, True, engine) for engine in ("python", "numba"))
    assert end_s == pytest.approx(there_s, rel=1e-12)
    assert sorted(row[0] for row in python) == pytest.approx(sorted(row[0] for row in numba), rel=1e-12)


def test_simpys_clock_has_an_event_for_what_is_told_outside_and_none_for_the_rest():
    network = make_network(star(2))
    clock = network.inner_clock

    def chatter():
        for _ in range(1000):
            yield network.transfer(0, 1, 1e3)
            yield clock.timeout(1e-3)

    network.env.run(clock.outside(clock.process(chatter())))
    assert network.env.now == pytest.approx(1000 * (1e-3 + 2e-6 + 1e-6))
    assert next(network.env._eid) < 10


def test_who_acts_on_simpys_clock_is_heard_at_its_time():
    network = make_network(star(2))
    clock, seen = network.inner_clock, []

    def listens(event: simpy.Event):
        yield event
        seen.append(clock.now)
        yield clock.timeout(2.0)
        seen.append(clock.now)

    def tells(event: simpy.Event):
        yield network.env.timeout(1.5)
        event.succeed()
        yield network.env.timeout(3.0)
        seen.append(clock.now)

    event = clock.event()
    clock.process(listens(event))
    network.env.run(network.env.process(tells(event)))
    assert seen == [1.5, 3.5, 4.5]


def test_a_mistake_in_a_process_is_raised_where_the_clock_is_run():
    network = make_network(star(2), Environment())

    def fails():
        yield network.inner_clock.timeout(1.0)
        raise ValueError("a mistake")

    network.inner_clock.process(fails())
    with pytest.raises(ValueError, match="a mistake"):
        network.env.run()


@pytest.mark.parametrize("engine", ["python", "numba"])
def test_a_process_may_look_at_what_is_on_the_wire(engine):
    network = make_network(star(3), engine=engine)
    clock, seen = network.inner_clock, []

    def looks():
        network.transfer(0, 1, 1e9)
        yield network.transfer(0, 2, 2.5e8)  # half of the link for each
        seen.append((clock.now, len(network.flows()), network.link_bytes.max()))
        yield clock.timeout(0.1)
        seen.append((clock.now, [flow.bytes_per_s for flow in network.flows()], network.link_bytes.max()))

    network.env.run(clock.outside(clock.process(looks())))
    at_s = 0.5 + 2e-6
    assert seen[0] == (pytest.approx(at_s), 1, pytest.approx(5e8))
    assert seen[1] == (pytest.approx(at_s + 0.1), [pytest.approx(1e9)], pytest.approx(6e8))
