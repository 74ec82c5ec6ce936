"""A training that fails goes back to its checkpoint: times of versions by hand, and laws for any failures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.failures import Failure, Recovery, recover
from clustersim.failures.wall_clock import first_wall_s, stretched, work_spans
from clustersim.results.learning import Curve, CurvePoint

INTERVAL_S, WRITE_S, DOWN_S = 20.0, 2.0, 5.0


def curve(*useful_s: float) -> Curve:
    """Return evaluations after an update every second; the loss is what is left of 100."""
    return tuple(CurvePoint(seconds, int(seconds), 100 - seconds, None) for seconds in useful_s)


def recovery(work_s: float, *failures_s: float) -> Recovery:
    return recover(work_s, INTERVAL_S, WRITE_S, DOWN_S, [Failure(time_s, "gpu", 0) for time_s in failures_s])


def on_wall_clock(of: Curve, *failures_s: float) -> list[tuple[float, int]]:
    spans = work_spans(recovery(of[-1].seconds, *failures_s), INTERVAL_S, WRITE_S)
    return [(point.seconds, point.updates) for point in stretched(of, spans)]


def test_without_failures_only_checkpoints_take_time() -> None:
    """They are written at 20 and, on the wall clock, at 42; none after the last update."""
    assert on_wall_clock(curve(0, 10, 20, 30, 40, 50, 60)) == [
        (0, 0), (10, 10), (20, 20), (32, 30), (42, 40), (54, 50), (64, 60),
    ]  # fmt: skip


def test_two_failures_by_hand() -> None:
    """The checkpoint of update 40 is there at 44. Failures at 47 and 60 lose 3 and 8 seconds; each restart takes 5."""
    assert on_wall_clock(curve(0, 10, 20, 30, 40, 50, 60), 47.0, 60.0) == [
        (0, 0), (10, 10), (20, 20), (32, 30), (42, 40), (52, 40), (65, 40), (75, 50), (85, 60),
    ]  # fmt: skip


def test_updates_are_made_again_after_a_failure() -> None:
    """A failure at 21, while the first checkpoint is written, takes the training back to its beginning at 26."""
    assert on_wall_clock(curve(0, 10, 20, 25), 21.0) == [
        (0, 0), (10, 10), (20, 20), (26, 0), (36, 10), (46, 20), (53, 25),
    ]  # fmt: skip


def test_a_drop_has_the_last_evaluation_before_the_checkpoint() -> None:
    """The checkpoint is after update 20, the evaluations after 15 and 30."""
    assert on_wall_clock(curve(0, 15, 30), 31.0) == [(0, 0), (15, 15), (36, 15), (46, 30)]


@given(
    st.lists(st.floats(1, 60), max_size=8),
    st.lists(st.floats(0.5, 30), min_size=1, max_size=20),
    st.floats(1, 50),
    st.floats(0, 5),
    st.floats(0, 10),
)
def test_every_update_is_made_and_the_last_one_ends_the_training(
    gaps_s: list[float], steps_s: list[float], interval_s: float, write_s: float, down_s: float
) -> None:
    useful_s = [sum(steps_s[:number]) for number in range(len(steps_s) + 1)]
    points = tuple(CurvePoint(seconds, number, 0.0, None) for number, seconds in enumerate(useful_s))
    failures = [Failure(sum(gaps_s[: number + 1]), "host", 0) for number in range(len(gaps_s))]
    found = recover(useful_s[-1], interval_s, write_s, down_s, failures)
    spans = work_spans(found, interval_s, write_s)
    wall = stretched(points, spans)
    assert all(one.seconds <= other.seconds + 1e-9 for one, other in pairwise(wall))
    assert wall[-1].seconds == pytest.approx(found.total_s)
    for point in points:
        first_s = next(each.seconds for each in wall if each.updates == point.updates)
        assert first_s == pytest.approx(first_wall_s(point.seconds, spans))
        assert first_s >= point.seconds - 1e-9
