"""Broadcasts one after another, several under way at once: a chain's messages written once are those of its steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import simpy

from clustersim.collectives import Schedule
from clustersim.collectives.chain import chain_broadcast, chain_reduce
from clustersim.network import Network

from .clusters import make_network, star

NUM_RANKS, NUM_BYTES = 9, 6e6
RINGS = [range(NUM_RANKS), [0, 3, 1, 4, 2, *range(5, NUM_RANKS)]]


def play_after_one_another(network: Network, schedules: list[Schedule]) -> np.ndarray:
    """Return when each rank is through with each broadcast [num_schedules, num_ranks].

    Rank r of each is GPU r + its number, and enters when its part of the one before is done.
    """
    env, num_ranks = network.env, schedules[0].num_ranks
    begun = [
        network.begin(schedule, np.roll(np.arange(num_ranks), -number).tolist())
        for number, schedule in enumerate(schedules)
    ]
    ends = np.zeros((len(begun), num_ranks))

    def rank(gpu: int):
        yield env.timeout(1e-4 * gpu)
        for number, collective in enumerate(begun):
            place = (gpu - number) % num_ranks
            collective.enter(place)
            yield collective.done(place)
            ends[number, gpu] = env.now

    env.run(simpy.AllOf(env, [env.process(rank(gpu)) for gpu in range(num_ranks)]))
    return ends


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce])
@pytest.mark.parametrize("eager_bytes", [0.0, 1e6])
@pytest.mark.parametrize("engine", ["python", "numba"])
def test_ranks_are_through_when_they_are_if_every_step_is_written_down(make, eager_bytes, engine):
    schedules = [make(NUM_RANKS, NUM_BYTES * (1 + number % 2), None, RINGS) for number in range(5)]
    plain = [replace(schedule, runs=None) for schedule in schedules]
    options = {"exact": True, "eager_bytes": eager_bytes}
    in_steps = play_after_one_another(make_network(star(NUM_RANKS), engine="python", **options), plain)
    network = make_network(star(NUM_RANKS), engine=engine, **options)
    assert play_after_one_another(network, schedules) == pytest.approx(in_steps, rel=1e-12)
    assert (np.diff(in_steps, axis=0) > 0).all()


def test_they_are_if_the_compiled_side_takes_over_while_they_are_under_way(monkeypatch):
    schedules = [chain_broadcast(NUM_RANKS, NUM_BYTES, None, RINGS) for _ in range(4)]
    in_steps = play_after_one_another(make_network(star(NUM_RANKS), engine="python", exact=True), schedules)
    monkeypatch.setattr(
        "clustersim.network.network.MOST_PYTHON_MESSAGES", sum(s.num_transfers() for s in schedules) + 100
    )
    network = make_network(star(NUM_RANKS), exact=True)
    assert play_after_one_another(network, schedules) == pytest.approx(in_steps, rel=1e-12)
    assert type(network.engine).__name__ == "NumbaEngine"


def test_rows_of_the_compiled_side_do_not_grow_with_the_pieces():
    def num_bytes(pieces: int) -> int:
        network = make_network(star(NUM_RANKS), engine="numba", exact=True)
        network.env.run(network.play(chain_broadcast(NUM_RANKS, NUM_BYTES, pieces, RINGS), range(NUM_RANKS)))
        arrays = network.engine.kernels._memory._arrays
        return sum(arrays[name].nbytes for name in ("messages", "own", "own_first"))

    assert num_bytes(500) == num_bytes(50)


def test_a_chain_of_several_channels_passes_on_their_pieces_together():
    """What is no more than a piece of each channel has no pipeline: n - 1 times its bytes."""
    rate = 1e9
    for piece_bytes, num_pieces in ((6e6, 1), (3e6, 2), (1e6, 6)):
        network = make_network(star(NUM_RANKS, bytes_per_s=rate, latency_s=0.0))
        schedule = chain_reduce(NUM_RANKS, NUM_BYTES, piece_bytes=piece_bytes)
        network.env.run(network.play(schedule, range(NUM_RANKS)))
        expected = (num_pieces + NUM_RANKS - 2) * NUM_BYTES / num_pieces / rate
        assert network.env.now == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce])
@pytest.mark.parametrize("engine", ["python", "numba"])
def test_stages_of_lines_are_played_as_if_every_step_is_written_down(make, engine):
    num_ranks, rings = 24, [range(24), [0, 3, 1, 4, 2, *range(5, 24)]]
    schedules = [make(num_ranks, NUM_BYTES * (1 + number % 2), None, rings, 1024, lines=True) for number in range(3)]
    assert schedules[0].num_steps == 64 + 8
    plain = [replace(schedule, runs=None) for schedule in schedules]
    in_steps = play_after_one_another(make_network(star(num_ranks), engine="python", exact=True), plain)
    for exact in (True, False):
        network = make_network(star(num_ranks), engine=engine, exact=exact)
        assert play_after_one_another(network, schedules) == pytest.approx(in_steps, rel=1e-12)


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce])
@pytest.mark.parametrize("num_ranks", [12, 65, 150])
def test_a_chain_of_lines_takes_its_latency_once_its_bytes_once_and_at_most_an_eighth_of_them_more(make, num_ranks):
    rate, num_bytes, wait_s = 1e9, 24e6, 1e-4
    ends = []
    for lines in (True, False):
        network = make_network(star(num_ranks, bytes_per_s=rate, latency_s=wait_s / 2))
        schedule = make(num_ranks, num_bytes, None, [range(num_ranks)], 1024, lines=lines)
        ends.append(network.env.run(network.play(schedule, range(num_ranks))).end_s)
    in_stages, in_hops = ends
    least_s, most_s = (num_ranks - 1) * wait_s + num_bytes / rate, num_bytes / rate / 8
    assert least_s <= in_stages.max() * (1 + 1e-9)
    assert in_stages.max() <= (least_s + most_s) * (1 + 1e-9)
    assert np.abs(in_stages - in_hops).max() <= most_s


def test_the_messages_of_lines_grow_with_the_ranks_alone():
    for num_ranks in (65, 513):
        schedule = chain_broadcast(num_ranks, 1e9, piece_bytes=1024, lines=True)
        assert schedule.num_transfers() <= (64 + 1) * (num_ranks - 1)
        assert schedule.num_steps == 64 + 8
