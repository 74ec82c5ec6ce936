"""Stragglers that follow the clock: their intervals, and the end of work."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clustersim.seeding import stream
from clustersim.stragglers import STRAGGLERS, Constant, Pace, Pauses, SlowPeriods, factors, paces
from clustersim.stragglers.intervals import GivenIntervals, PeriodicIntervals, RandomIntervals, SlowIntervals

ONE_HOST = np.zeros(4, dtype=np.int64)
TWO_HOSTS = np.array([5, 5, 2, 2])


def intervals() -> dict[str, SlowIntervals]:
    return {
        "given": GivenIntervals([1.0, 2.5, 40.0], 1.2),
        "regular": PeriodicIntervals(0.7, 0.1, 0.33),
        "alternating": RandomIntervals(stream(1, "test"), 0.8, 0.3),
    }


def slow_periods(**knobs: Any) -> SlowPeriods:
    return SlowPeriods.model_validate({"kind": "slow-periods", "factor": 3, "every": "10 s", "lasts": "2 s"} | knobs)


def pauses(**knobs: Any) -> Pauses:
    return Pauses.model_validate({"kind": "pauses", "every": "1 s", "lasts": "50 ms"} | knobs)


def known(every: list[Pace] | None) -> list[Pace]:
    assert every is not None
    return every


@pytest.mark.parametrize("name", intervals())
@given(start_s=st.floats(0, 60), span_s=st.floats(0, 20))
def test_edges_are_where_the_state_changes(name: str, start_s: float, span_s: float) -> None:
    each = intervals()[name]
    edges = each.edges(start_s, start_s + span_s)
    assert ((edges > start_s) & (edges <= start_s + span_s)).all()
    ends = np.concatenate([[start_s], edges, [start_s + span_s]])
    middles = (ends[:-1] + ends[1:]) / 2
    states = each.is_slow(middles)
    wide = np.diff(ends) > 1e-9
    assert (np.diff(states[wide].astype(int)) != 0).all()
    if len(edges):
        assert each.next_edge(start_s) == edges[0]
    else:
        assert each.next_edge(start_s) > start_s + span_s


def test_given_intervals_that_overlap_are_merged() -> None:
    assert GivenIntervals([3.0, 1.0, 2.0], 1.5).edges(0.0, 9.0).tolist() == [1.0, 4.5]


@pytest.mark.parametrize(("every_s", "lasts_s"), [(10.0, 2.0), (1.0, 0.7)])
def test_random_intervals_have_the_given_mean_lengths(every_s: float, lasts_s: float) -> None:
    each = RandomIntervals(stream(3, "test"), every_s - lasts_s, lasts_s)
    edges = each.edges(0.0, 20_000 * every_s)
    lengths = np.diff(edges)
    slow = each.is_slow((edges[:-1] + edges[1:]) / 2)
    assert lengths[slow].mean() == pytest.approx(lasts_s, rel=0.04)
    assert lengths[~slow].mean() == pytest.approx(every_s - lasts_s, rel=0.04)
    assert lengths[slow].std() == pytest.approx(lasts_s, rel=0.06)  # as exponential lengths have it


def test_a_run_starts_in_an_interval_with_the_stationary_probability() -> None:
    begins = [RandomIntervals(stream(seed, "test"), 7.0, 3.0).is_slow(np.array([0.0]))[0] for seed in range(2000)]
    assert np.mean(begins) == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / 2000))


def test_looking_far_ahead_changes_no_random_interval() -> None:
    near, far = (RandomIntervals(stream(3, "test"), 1.0, 0.5) for _ in range(2))
    far.edges(0.0, 5000.0)
    steps = [near.edges(float(t), float(t + 1)) for t in range(500)]
    assert np.array_equal(np.concatenate(steps), far.edges(0.0, 500.0))


def test_work_without_intervals_takes_its_own_time() -> None:
    assert Pace([]).end_s(0.1, 0.2) == 0.1 + 0.2
    assert Pace([(GivenIntervals([50.0], 1.0), 0.0)]).end_s(0.1, 0.2) == 0.1 + 0.2


@pytest.mark.parametrize(
    ("start_s", "work_s", "end_s"),
    [
        (0.0, 2.0, 2.0),  # done when the slow period begins
        (0.0, 3.0, 4.0),  # 2 s, and 1 s of work at half the speed
        (1.0, 3.0, 6.0),  # 1 s, 2 s at half speed which take 4 s: to the end of the period
        (3.0, 1.0, 5.0),
        (5.0, 2.5, 9.5),  # half a second of work at half speed, 1 s to the pause, 1.5 s of pause, and 1 s
        (7.0, 0.0, 7.0),
        (7.5, 1.0, 9.5),  # begins in the pause
        (20.0, 5.0, 25.0),
    ],
)
def test_work_is_the_integral_of_speed(start_s: float, work_s: float, end_s: float) -> None:
    pace = Pace([(GivenIntervals([2.0], 4.0), 0.5), (GivenIntervals([7.0], 1.5), 0.0)])
    assert pace.end_s(start_s, work_s) == pytest.approx(end_s, rel=1e-12)


@given(
    seed=st.integers(0, 1000),
    start_s=st.floats(0, 100),
    works_s=st.lists(st.floats(1e-6, 30), min_size=1, max_size=6),
)
def test_work_in_parts_ends_at_the_same_time(seed: int, start_s: float, works_s: list[float]) -> None:
    specs = [slow_periods(), pauses(), slow_periods(factor=0.5, every="300 ms", lasts="100 ms")]
    (in_parts,), (in_one,) = (known(paces(specs, seed, np.zeros(1))) for _ in range(2))
    time_s = start_s
    for work_s in works_s:
        time_s = in_parts.end_s(time_s, work_s)
    assert time_s == pytest.approx(in_one.end_s(start_s, sum(works_s)), rel=1e-9)


@given(start_s=st.floats(0, 50), work_s=st.floats(1e-3, 20))
def test_more_intervals_end_work_later(start_s: float, work_s: float) -> None:
    (few,), (more,) = (known(paces(specs, 3, np.zeros(1))) for specs in ([pauses()], [pauses(), slow_periods()]))
    assert start_s + work_s <= few.end_s(start_s, work_s) + 1e-12
    assert few.end_s(start_s, work_s) <= more.end_s(start_s, work_s) * (1 + 1e-12)


def test_slow_periods_cost_their_share_of_the_time() -> None:
    (pace,) = known(paces([slow_periods()], 3, np.zeros(1)))
    work_s = 100_000.0
    assert pace.end_s(0.0, work_s) * (0.8 + 0.2 / 3) == pytest.approx(work_s, rel=0.02)


def test_regular_pauses_cost_their_share_of_the_time() -> None:
    (pace,) = known(paces([pauses()], 3, np.zeros(1)))
    assert pace.end_s(0.0, 950.0) == pytest.approx(1000.0, abs=0.05)


def test_work_below_the_resolution_of_the_clock_ends_at_once() -> None:
    assert Pace([(GivenIntervals([1e9], 1.0), 0.5)]).end_s(1e9 + 0.5, 1e-12) == pytest.approx(1e9 + 0.5)


def test_one_more_rank_or_straggler_changes_no_other_intervals() -> None:
    few = known(paces([slow_periods()], 5, np.zeros(2)))
    more = known(paces([pauses(of=[2]), slow_periods()], 5, np.zeros(3)))
    for rank in range(2):
        assert few[rank].end_s(0.0, 77.0) == more[rank].end_s(0.0, 77.0)
    assert few[0].end_s(0.0, 77.0) != few[1].end_s(0.0, 77.0)


@pytest.mark.parametrize(("per", "num_different"), [("gpu", 4), ("host", 2), ("job", 1)])
@pytest.mark.parametrize("make", [slow_periods, pauses])
def test_intervals_are_those_of_a_gpu_a_host_or_the_job(make: Any, per: str, num_different: int) -> None:
    firsts = [list(islice(pace.changes(), 3)) for pace in known(paces([make(per=per)], 5, TWO_HOSTS))]
    assert len({str(first) for first in firsts}) == num_different
    assert (firsts[0] == firsts[1]) == (per != "gpu")


def test_other_ranks_are_not_slowed() -> None:
    every = known(paces([slow_periods(of={"hosts": [1]})], 5, TWO_HOSTS))
    assert [pace.end_s(0.0, 1000.0) == 1000.0 for pace in every] == [True, True, False, False]


def test_factor_stragglers_have_no_pace_and_timed_ones_no_factors() -> None:
    constant = Constant(kind="constant", factor=2)
    assert paces([constant], 1, ONE_HOST) is None
    assert np.array_equal(factors([slow_periods(), constant], 1, ONE_HOST, 3), np.full((4, 3), 2.0))


def test_changes_have_the_speed_from_then_on() -> None:
    pace = Pace([(GivenIntervals([0.0, 4.0], 2.0), 0.5), (GivenIntervals([1.0], 1.0), 0.0)])
    assert list(pace.changes()) == [(0.0, 0.5), (1.0, 0.0), (2.0, 1.0), (4.0, 0.5), (6.0, 1.0)]


def test_changes_of_random_intervals_never_end_and_agree_with_the_pieces() -> None:
    (pace,) = known(paces([slow_periods(), pauses()], 2, np.zeros(1)))
    changes = list(islice(pace.changes(), 200))
    times_s, speeds = pace.pieces(0.0, changes[-1][0])
    changed = dict(changes)
    speed = 1.0
    for time_s, expected in zip(times_s.tolist(), speeds.tolist(), strict=False):
        speed = changed.get(time_s, speed)
        assert speed == expected


@pytest.mark.parametrize(
    ("kind", "knobs", "words"),
    [
        (
            "slow-periods",
            {"factor": 2, "lasts": "1 s"},
            "the times of the intervals .got neither",
        ),
        ("slow-periods", {"factor": 2, "lasts": "1 s", "every": "2 s", "at": ["1 s"]}, "got both"),
        ("slow-periods", {"factor": 2, "lasts": "3 s", "every": "2 s"}, "'every' must be longer than 'lasts'"),
        ("slow-periods", {"factor": -2, "lasts": "1 s", "every": "2 s"}, "greater than 0"),
        ("slow-periods", {"factor": 2, "lasts": "-1 s", "every": "2 s"}, "must not be negative"),
        ("pauses", {"lasts": 0, "every": "2 s"}, "greater than or equal to 0.000001"),
        ("pauses", {"lasts": "1 s", "at": []}, "at least 1"),
        ("pauses", {"lasts": "1 s", "every": "2 s", "per": "rack"}, "'gpu', 'host' or 'job'"),
        ("link-slow-downs", {"factor": 1, "lasts": "1 s", "every": "2 s"}, "greater than 1"),
        ("link-outages", {"lasts": "1 s", "every": "2 s", "of": "som"}, "'network' or 'all'"),
    ],
)
def test_impossible_intervals_are_refused(kind: str, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        STRAGGLERS[kind].model_validate({"kind": kind} | knobs)
