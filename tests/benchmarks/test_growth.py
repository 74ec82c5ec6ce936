"""How the work of the network grows, in counts, so that no clock decides."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable

import pytest

from clustersim.network import Network

from .machine import calibrate, imports
from .work import play_flows, play_ring, star, torus


def num_messages(num_ranks: int) -> int:
    return num_ranks * 2 * (num_ranks - 1)


@pytest.mark.parametrize("num_ranks", [8, 32])
def test_ranks_in_lock_step_share_two_instants_a_step_and_need_no_solve(num_ranks):
    counts = play_ring(star(num_ranks), num_ranks).counts
    assert counts.flows == num_messages(num_ranks)
    assert counts.instants <= 2 * 2 * (num_ranks - 1) + 2
    assert counts.solves == 0


@pytest.mark.parametrize("num_ranks", [8, 32])
def test_jitter_costs_three_instants_a_message_and_no_solve_where_nobody_shares(num_ranks):
    counts = play_ring(star(num_ranks), num_ranks, jitter=True).counts
    assert counts.instants <= 3 * num_messages(num_ranks) + 2
    assert counts.solves == counts.levels == 0


def test_a_solve_looks_at_the_links_around_a_change_and_not_at_the_cluster():
    small = play_ring(torus(3, 3, 2), 18, jitter=True, shuffled=True).counts
    large = play_ring(torus(4, 4, 4), 64, jitter=True, shuffled=True).counts
    assert small.solves > 0
    assert large.solves <= 2 * large.flows
    assert large.levels / large.solves < 2 * small.levels / small.solves


def test_simpy_sees_what_is_waited_for_and_not_every_message():
    network = play_ring(star(32), 32, jitter=True)
    assert network.counts.flows > 1900
    assert next(network.env._eid) < 20


def test_a_ring_with_twice_the_ranks_plays_twice_the_messages_where_steps_repeat():
    played = [play_ring(star(num_ranks), num_ranks, exact=False).counts.flows for num_ranks in (32, 64)]
    assert played[1] == 2 * played[0] < num_messages(32)


def test_links_that_nobody_used_cost_nothing():
    few = play_flows(torus(4, 4, 4), 50, 1e-3).counts
    many = play_flows(torus(16, 16, 4), 50, 1e-3).counts
    assert few.flows == many.flows == 50
    assert many.levels <= few.levels


def test_flows_at_the_same_load_cost_the_same_each_however_many_there_are():
    """Twice the hosts and twice the messages a second: as many meet as before, so a flow costs what it did."""
    few = play_flows(star(64), 400, 2e-4).counts
    many = play_flows(star(128), 800, 1e-4).counts
    assert few.levels > 2 * few.flows  # they do meet
    for counts in (few, many):
        assert counts.solves <= 2 * counts.flows
        assert counts.instants <= 2 * counts.flows + 1
    assert many.levels / many.flows < 1.5 * few.levels / few.flows


def test_flows_that_all_start_at_once_are_shared_once_for_each_delay_and_each_end():
    counts = play_flows(torus(4, 4, 4), 200, 0.0).counts
    num_delays = 7  # routes of 2 to 8 hops
    assert counts.instants <= num_delays + counts.flows
    assert counts.solves <= counts.instants


@pytest.mark.parametrize("jitter", [False, True])
def test_memory_of_a_ring_grows_with_its_ranks_and_not_with_its_messages(jitter):
    """Twice the ranks send four times the messages; the pauses of all steps, which the caller brings, are apart."""
    small, large = (
        peak_bytes(lambda n=n: play_ring(star(n), n, jitter)) - jitter * 8 * num_messages(n) for n in (24, 48)
    )
    assert 1.2 * small < large < 2.5 * small


def peak_bytes(work: Callable[[], Network]) -> int:
    """Return the most memory that Python objects and arrays took during a second go at some work."""
    work()
    gc.collect()  # nothing of what came before is freed in between
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_messages_a_second_are_worth_so_many_additions():
    """A message with jitter costs some 200 additions in a Python loop; five times that would be another engine."""
    cluster = star(32)
    play_ring(cluster, 32, jitter=True)
    assert min(additions_a_message(lambda: play_ring(cluster, 32, jitter=True)) for _ in range(2)) < 1000


def additions_a_message(work: Callable[[], Network]) -> float:
    """Return the CPU time of a message, in additions of a Python loop on this machine at this time."""
    addition_s = calibrate(times=1) / 1e6
    start = time.process_time()
    network = work()
    return (time.process_time() - start) / network.counts.flows / addition_s


def test_what_the_network_loads_takes_little_more_than_numpy_and_simpy_alone():
    """Of 0.1 to 0.15 s for these two on an idle core of today, three times as much leaves ours within 0.3 s."""
    assert min(imports("clustersim.network", 1) / imports("numpy, simpy", 1) for _ in range(3)) < 3.5
