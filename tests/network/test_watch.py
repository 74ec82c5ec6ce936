"""Watching many ranks of a collective gives the same as waiting for each, with one event for those of one time."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer
from clustersim.network import Environment, Network

STAR = {"kind": "star", "num_hosts": 20, "link": "1 GB/s", "hop": "1 us"}


def notified(algorithm: str, step: int | None, enter_s: np.ndarray, exact: bool, engine: str) -> tuple[list, list]:
    """Play a collective; return when each rank reached a step, by watching and by waiting."""
    env = Environment()
    network = Network(env, STAR, exact=exact, engine=engine)
    num_ranks = len(enter_s)
    schedule = ALL_REDUCE[algorithm](num_ranks, 8e6)
    due = schedule.num_steps if step is None else step
    collective = network.begin(schedule, list(range(num_ranks)))
    watched, waited = [0.0] * num_ranks, [0.0] * num_ranks

    def look(ranks: list[int]) -> None:
        for rank in ranks:
            watched[rank] = env.now

    def worker(rank: int):
        yield env.timeout(enter_s[rank])
        collective.enter(rank)
        event = collective.reached(rank, due)
        collective.watch([rank], due, look)
        yield event
        waited[rank] = env.now

    for rank in range(num_ranks):
        env.process(worker(rank))
    env.run()
    return watched, waited


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("step", [0, 1, 3, None])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("engine", ["python", "numba"])
def test_watching_and_waiting_give_the_same(algorithm, step, exact, engine):
    enter_s = np.random.default_rng(3).random(20) * 1e-3
    watched, waited = notified(algorithm, step, enter_s, exact, engine)
    assert watched == waited
    assert min(watched) > 0


def test_ranks_that_reach_a_step_at_one_time_have_one_event():
    env = Environment()
    network = Network(env, STAR)
    schedule = ALL_REDUCE["ring"](20, 20e6)
    collective = network.begin(schedule, list(range(20)))
    calls: list[tuple[float, list[int]]] = []
    collective.enter(*range(20))
    collective.watch(range(20), schedule.num_steps, lambda ranks: calls.append((env.now, sorted(ranks))))
    env.run()
    assert [ranks for _, ranks in calls] == [list(range(20))]
    assert calls[0][0] == pytest.approx(38 * (2e-6 + 1e6 / 1e9), rel=1e-9)


@pytest.mark.parametrize("engine", ["python", "numba"])
def test_events_of_steps_that_a_rank_passes_in_one_instant_fire_in_order_of_steps(engine):
    env, order = Environment(), []
    collective = Network(env, STAR, engine=engine, exact=True).begin(
        Schedule.from_transfers([Transfer(step, 0, 0, 1e3) for step in range(2)]), [0]
    )
    for step in (2, 0, 1):
        collective.reached(0, step).callbacks.append(lambda event, step=step: order.append(step))
    collective.enter(0)
    env.run()
    assert order == [0, 1, 2]
