"""The shortcut of uncontended collectives gives the times of a full simulation, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from simpy.events import ProcessGenerator

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer

from . import random_work
from .clusters import line, make_network
from .random_work import Work, assert_same, duration_s

pytestmark = pytest.mark.usefixtures("engine", "eagerness")


@pytest.fixture(scope="module")
def eagerness() -> Iterator[None]:
    """Let the shortcut be tried at every chance, however small the collective is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clustersim.network.uncontended.shortcut._FEWEST_MESSAGES", 0)
        patch.setattr("clustersim.network.uncontended.shortcut._MOST_PASSED", 0)
        patch.setattr("clustersim.network.uncontended.shortcut._FEWEST_TO_SKIP", 0)
        patch.setattr("clustersim.network.uncontended.shortcut._MOST_REFUSED", 1 << 30)
        yield


@given(work=random_work.works())
@settings(max_examples=80, deadline=None)
def test_whoever_interrupts_the_shortcut_changes_nothing(work: Work):
    span_s = duration_s(work)
    exact = random_work.play(work, span_s, exact=True)
    assert_same(exact, random_work.play(work, span_s))


@pytest.mark.parametrize("exact", [False, True])
def test_adding_no_bytes_in_a_memory_that_stands_still_takes_no_time(exact):
    graph = line(2)
    graph.add_edge("gpu1", "gpu1", bytes_per_s=1e9, latency_s=0.0)
    network = make_network(graph, adds=True, exact=exact)
    network.set_rate(network.topology.adders[int(network.topology.gpus[1])], 0.0)
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 0.0, reduce=True)])
    latency_s = network.topology.links.latency_s[network.topology.route(*network.topology.gpus.tolist())].sum()
    assert network.env.run(network.play(schedule, [0, 1])).end_s == pytest.approx([latency_s] * 2, rel=1e-12)


def test_a_collective_that_nobody_has_entered_is_in_nobodys_way():
    def play(exact: bool) -> tuple[list[float], int]:
        network = make_network(line(8), exact=exact)
        schedule = ALL_REDUCE["ring"](8, 8e6)
        later = network.begin(schedule, list(range(8)))
        first_s = network.env.run(network.play(schedule, list(range(8)))).end_s
        num_played = network.counts.flows
        later.enter(*range(8))
        return [*first_s.tolist(), *network.env.run(later.finished).end_s.tolist()], num_played

    (exact_s, _), (quick_s, num_played) = play(exact=True), play(exact=False)
    assert quick_s == pytest.approx(exact_s, rel=1e-12)
    assert num_played == 0


@pytest.mark.parametrize("delayed", [False, True])
def test_after_a_late_interruption_only_the_last_steps_are_simulated(delayed):
    def play(exact: bool) -> tuple[list[float], float, int]:
        network = make_network(line(12), adds=True, exact=exact)
        schedule = ALL_REDUCE["ring"](12, 12e6)
        delay_s = np.random.default_rng(0).random((12, schedule.num_steps)) * 1e-3 if delayed else None
        whole = network.play(schedule, list(range(12)), np.linspace(0, 1e-4, 12), delay_s)

        def interrupt() -> ProcessGenerator:
            yield network.env.timeout(0.8 * uncontended_s)
            yield network.transfer(3, 5, 1e5)

        other = network.env.process(interrupt())
        end_s = network.env.run(whole).end_s.tolist()
        network.env.run(other)
        return end_s, float(network.engine.carried_bytes().sum()), network.counts.flows

    uncontended_s = 0.0
    uncontended_s = max(play(exact=True)[0])
    (exact_s, exact_bytes, num_exact), (quick_s, quick_bytes, num_quick) = play(exact=True), play(exact=False)
    assert quick_s == pytest.approx(exact_s, rel=1e-9)
    assert quick_bytes == pytest.approx(exact_bytes, rel=1e-9)
    assert num_quick < num_exact / 2
