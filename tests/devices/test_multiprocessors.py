"""Work runs at the rest of the speed while multiprocessors are occupied."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from clustersim.devices import Multiprocessors
from clustersim.stragglers import STRAGGLERS, paces

OCCUPIED = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3), st.floats(0, 0.3)), max_size=4)


def run(work_s: float, occupied: list[tuple[float, float, float]], pace=None) -> tuple[float, float, list]:
    """Return the end of work that begins at 0, the lost seconds, and its pieces; `occupied` are (from, for, share)."""
    env = simpy.Environment()
    own = Multiprocessors(env, pace)

    def occupy(from_s: float, for_s: float, share: float):
        yield env.timeout(from_s)
        own.occupy(share)
        yield env.timeout(for_s)
        own.release(share)

    for each in occupied:
        env.process(occupy(*each))
    pieces = env.run(own.work(work_s))
    return float(env.now), own.take_lost_s(), pieces


def test_a_collective_of_t_seconds_costs_its_share_of_them():
    end_s, lost_s, pieces = run(10.0, [(2.0, 4.0, 0.25)])
    assert end_s == pytest.approx(10.0 + 4.0 * 0.25)
    assert lost_s == pytest.approx(4.0 * 0.25)
    assert pieces == [(2.0, 2.0), (6.0, pytest.approx(5.0))]


def test_work_that_ends_before_the_collective_is_slow_to_its_end():
    end_s, lost_s, _ = run(3.0, [(0.0, 100.0, 0.25)])
    assert end_s == pytest.approx(3.0 / 0.75)
    assert lost_s == pytest.approx(1.0)


def test_two_shares_at_once_add_up():
    end_s, _, _ = run(10.0, [(1.0, 4.0, 0.25), (2.0, 2.0, 0.5)])
    assert end_s == pytest.approx(10.0 + 4.0 * 0.25 + 2.0 * 0.5)


def test_with_nothing_left_it_stands_still():
    end_s, lost_s, _ = run(3.0, [(1.0, 4.0, 1.0)])
    assert end_s == pytest.approx(7.0)
    assert lost_s == pytest.approx(4.0)


def test_a_pause_and_a_share_both_slow_it():
    pause = STRAGGLERS["pauses"].model_validate({"kind": "pauses", "at": ["2 s"], "lasts": "3 s"})
    (pace,) = paces([pause], 0, np.zeros(1)) or []
    end_s, _, _ = run(3.0, [(1.0, 6.0, 0.5)], pace)
    assert end_s == pytest.approx(1.0 + 3.0 + 3.0 + 0.5)  # free, half of a second and of two around the pause, free


@given(work_s=st.floats(0.01, 10), occupied=OCCUPIED)
def test_the_lost_seconds_are_the_delay_of_its_end(work_s, occupied):
    end_s, lost_s, _ = run(work_s, occupied)
    assert end_s == pytest.approx(work_s + lost_s, rel=1e-9)


@given(
    work_s=st.floats(0.01, 10), occupied=OCCUPIED, more=st.tuples(st.floats(0, 5), st.floats(0, 3), st.floats(0, 0.05))
)
def test_one_more_share_never_makes_it_end_sooner(work_s, occupied, more):
    assert run(work_s, [*occupied, more])[0] >= run(work_s, occupied)[0] - 1e-9


def test_work_is_one_event_on_the_clock_unless_its_speed_changes():
    env = simpy.Environment()
    own, processed = Multiprocessors(env, None), []

    def compute():
        for _ in range(3):
            yield own.work(1.0)

    over = env.process(compute())
    while over.is_alive:
        processed.append(env.now)
        env.step()
    assert env.now == 3.0
    assert len(processed) == 4  # the process begins, and then each work ends
