"""A network that moves from the Python engine to the Numba engine at any time gives the same times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer
from clustersim.errors import SimulationError
from clustersim.network import FlowRate, Network
from clustersim.network.numba_engine.engine import NumbaEngine
from clustersim.network.python_engine.engine import PythonEngine

from . import random_work
from .clusters import line, link_between, make_network, star
from .random_work import Work, assert_same, duration_s, watched


@pytest.fixture(scope="module", autouse=True)
def most_plain() -> Iterator[Callable[[int], None]]:
    """Return what sets the number of messages above which a network compiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clustersim.network.uncontended.shortcut._FEWEST_MESSAGES", 0)
        patch.setattr("clustersim.network.uncontended.shortcut._MOST_PASSED", 0)
        patch.setattr("clustersim.network.network._MESSAGES_PER_SENT", 0)  # however they were sent
        yield lambda number: patch.setattr("clustersim.network.network.MOST_PYTHON_MESSAGES", number)


def switching(network: Network, time_s: float, switch: Callable[[int], None]) -> Iterator[object]:
    """Let the network move to the Numba engine as soon as it can from a time on."""
    yield network.env.timeout(time_s)
    assert isinstance(network.engine, PythonEngine)
    switch(-1)
    network.before_acting()
    network._choose_engine()
    network.after_acting()


def play_switched(work: Work, span_s: float, when: float, switch: Callable[[int], None], **options: bool):
    """Play a work and let it switch at a part of `span_s`."""
    switch(100_000)
    return random_work.play(
        work, span_s, lambda network: network.env.process(switching(network, when * span_s, switch)), **options
    )


@given(work=random_work.works(), when=st.integers(0, 1200).map(lambda number: number / 1000), exact=st.booleans())
@settings(max_examples=60, deadline=None)
def test_switching_at_any_time_changes_nothing(most_plain, work, when, exact):
    span_s = duration_s(work)
    python = random_work.play(work, span_s, exact=True, engine="python")
    switched = play_switched(work, span_s, when, most_plain, exact=exact)
    assert_same(python, switched)
    assert isinstance(switched.network.engine, NumbaEngine) or work.costs["eager_bytes"]


@given(work=random_work.works(eager=False), most=st.integers(0, 60), exact=st.booleans())
@settings(max_examples=60, deadline=None)
def test_switching_when_there_is_much_to_do_changes_nothing(most_plain, work, most, exact):
    span_s = duration_s(work)
    python = random_work.play(work, span_s, exact=True, engine="python")
    most_plain(most)
    assert_same(python, random_work.play(work, span_s, exact=exact))


@given(work=random_work.works(eager=False), when=st.integers(0, 1200).map(lambda number: number / 1000))
@settings(max_examples=60, deadline=None)
def test_who_watches_sees_the_same_rates_at_the_same_times(most_plain, work, when):
    span_s, python, switched = duration_s(work), [], []
    random_work.play(work, span_s, watched(python), engine="python")
    most_plain(100_000)

    def begin(network: Network) -> None:
        watched(switched)(network)
        network.env.process(switching(network, when * span_s, most_plain))

    random_work.play(work, span_s, begin)
    assert_seen(python, switched)


Looks = list[tuple[float, list[FlowRate]]]


def assert_seen(python: Looks, other: Looks) -> None:
    """Compare the last rates that the Python engine shows at each time with those of another."""
    one, two = last_looks(python), last_looks(other)
    times_s = np.array([*two, np.inf])
    for time_s, rates in one.items():
        nearest_s = float(times_s[np.abs(times_s - time_s).argmin()])
        assert nearest_s == pytest.approx(time_s, rel=1e-9, abs=1e-300)
        assert two[nearest_s] == pytest.approx(rates, rel=1e-9)


def last_looks(looks: Looks) -> dict[float, list[float]]:
    """Return the rates that the last of the looks at each instant shows, in order of size."""
    last: dict[float, list[float]] = {}
    before_s = -np.inf
    for time_s, flows in looks:
        if time_s - before_s <= 1e-12 * time_s:
            time_s = before_s
        last[time_s] = sorted(flow.bytes_per_s for flow in flows)
        before_s = time_s
    return last


def test_a_network_with_eager_messages_switches_between_collectives_only(most_plain):
    network = make_network(star(4), eager_bytes=1e9, exact=True)
    ring, seen = ALL_REDUCE["ring"](4, 4e6), []

    def train() -> Iterator[object]:
        for _ in range(2):
            collective = network.begin(ring, range(4))
            collective.enter(0, 1, 2, 3)
            for step in (2, 4):
                yield collective.reached(0, step)
                seen.append(type(network.engine))
            yield collective.finished
            yield network.env.timeout(1.0)
            yield network.transfer(0, 1, 1e6)

    most_plain(-1)
    network.env.run(network.env.process(train()))
    assert seen == [PythonEngine, PythonEngine, NumbaEngine, NumbaEngine]


def test_small_work_stays_on_the_python_engine_and_much_does_not(most_plain):
    most_plain(4 * 6 - 1)
    network = make_network(star(4), exact=True)
    network.env.run(network.play(ALL_REDUCE["ring"](4, 4e6), range(4)))
    assert isinstance(network.engine, NumbaEngine)
    most_plain(2 * 4 * 6)
    network = make_network(star(4), exact=True)
    network.env.run(network.play(ALL_REDUCE["ring"](4, 4e6), range(4)))
    assert isinstance(network.engine, PythonEngine)


def test_what_is_stuck_is_reported_alike_after_switching(most_plain):
    def reported(when: float | None) -> str:
        most_plain(100_000)
        network = make_network(line(4))
        network.play(Schedule.from_transfers([Transfer(0, 0, 2, 1e9), Transfer(1, 2, 3, 1e9)]), range(4))
        late = network.begin(ALL_REDUCE["ring"](2, 1e9), [0, 3])
        late.enter(0)
        network.transfer(1, 3, 1e9)
        at = link_between(network, "switch1", "switch2")
        network.env.process(after(network, 0.5, lambda: network.set_rate(at, 0.0)))
        if when is not None:
            network.env.process(switching(network, when, most_plain))
        with pytest.raises(SimulationError) as error:
            network.env.run()
        return str(error.value)

    lines = reported(None)
    assert "rank 2 at step 0 waits for the message from rank 0, which stands still" in lines
    assert "rank 0 at step 0 waits for rank 1, which has not entered" in lines
    assert "a transfer of 1e+09 bytes stands still" in lines
    for when in (0.0, 0.25, 0.5, 0.75):
        assert sorted(reported(when).splitlines()) == sorted(lines.splitlines())


def after(network: Network, time_s: float, act: Callable[[], object]) -> Iterator[object]:
    """Act at a time."""
    yield network.env.timeout(time_s)
    act()


def test_what_began_on_one_engine_is_cancelled_on_the_other(most_plain):
    """Two messages share a link at half its rate; one is called off a second after the switch."""
    most_plain(100_000)
    network = make_network(star(3, latency_s=0.0))
    called_off, other = network.transfer(0, 2, 2e9), network.transfer(1, 2, 2e9)
    network.env.process(switching(network, 1.0, most_plain))
    network.env.process(after(network, 2.0, lambda: network.cancel(called_off)))
    network.env.run()
    assert isinstance(network.engine, NumbaEngine)
    assert called_off.value[1:] == pytest.approx((2.0, 1e9), rel=1e-12)
    assert other.value.end_s == pytest.approx(3.0, rel=1e-12)
    assert network.link_bytes[link_between(network, "switch", "gpu2")] == pytest.approx(3e9, rel=1e-12)


def test_a_bulk_that_has_partly_ended_keeps_its_times(most_plain):
    most_plain(100_000)
    network = make_network(star(4, latency_s=0.0))
    bulk = network.transfers([0, 1, 2], [3, 3, 3], [1e9, 1e9, 1e9], start_s=[0.0, 2.0, 4.0])
    network.env.process(switching(network, 2.5, most_plain))
    assert network.env.run(bulk).end_s == pytest.approx([1.0, 3.0, 5.0], rel=1e-12)


def test_counts_go_on_over_the_switch(most_plain):
    def counts(switch_s: float | None) -> tuple[int, ...]:
        most_plain(100_000)
        network = make_network(line(4), exact=True)
        network.play(ALL_REDUCE["ring"](4, 4e9), range(4))
        if switch_s is not None:
            network.env.process(switching(network, switch_s, most_plain))
        network.env.run()
        return network.counts[1:]

    assert counts(2.5) == counts(None)
