"""How the work of the network grows, in counts, so that no clock decides."""

from __future__ import annotations

import pytest

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
