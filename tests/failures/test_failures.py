"""Failures have the right rates, and recovery times agree with closed forms."""

from __future__ import annotations

import math
from itertools import islice, pairwise, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clustersim.errors import SimulationError
from clustersim.failures import (
    Failure,
    Failures,
    Lifetime,
    best_interval,
    daly_s,
    expected_s,
    failure_times,
    is_hopeless,
    job_mtbf_s,
    least_failures,
    recover,
    young_s,
)
from clustersim.seeding import stream


def lifetime(mtbf: str, shape: float = 1.0) -> Lifetime:
    return Lifetime.model_validate({"mtbf": mtbf, "shape": shape})


def rng_of(seed: int) -> Any:
    return lambda what, number: stream(seed, "failures", what, number)


def at(*times_s: float) -> list[Failure]:
    return [Failure(time_s, "gpu", 0) for time_s in times_s]


@pytest.mark.parametrize("shape", [0.7, 1.0, 3.0])
def test_lifetimes_have_the_mean_and_spread_of_their_weibull(shape: float) -> None:
    rng, life = stream(1, "test"), lifetime("10 h", shape)
    drawn = np.array([life.draw_s(rng) for _ in range(20_000)])
    cv = math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)
    assert drawn.mean() == pytest.approx(36_000, rel=0.05)
    assert drawn.std() / drawn.mean() == pytest.approx(cv, rel=0.06)


def test_failures_are_in_order_and_as_frequent_as_the_sum_of_their_rates() -> None:
    kinds = [("gpu", lifetime("100 h"), 16), ("host", lifetime("50 h", 0.8), 4)]
    failures = list(islice(failure_times(kinds, rng_of(3)), 8000))
    assert all(first.time_s <= second.time_s for first, second in pairwise(failures))
    assert failures[-1].time_s / len(failures) == pytest.approx(job_mtbf_s(kinds), rel=0.05)
    assert np.mean([failure.what == "gpu" for failure in failures]) == pytest.approx(2 / 3, abs=0.03)


def test_one_more_gpu_changes_no_other_failures() -> None:
    few = failure_times([("gpu", lifetime("100 h"), 3)], rng_of(3))
    more = failure_times([("host", lifetime("10 h"), 1), ("gpu", lifetime("100 h"), 4)], rng_of(3))
    kept = (failure for failure in more if failure.what == "gpu" and failure.number < 3)
    assert list(islice(few, 20)) == list(islice(kept, 20))


def test_without_failures_only_checkpoints_cost() -> None:
    whole = recover(100.0, 30.0, 2.0, 50.0, [])
    assert (whole.useful_s, whole.checkpoint_s, whole.total_s, whole.num_failures) == (100.0, 6.0, 106.0, 0)


@pytest.mark.parametrize(
    ("failures_s", "lost_s", "restart_s", "checkpoint_s", "num_failures"),
    [
        ((5.0,), 5.0, 7.0, 4.0, 1),  # before the first checkpoint
        ((11.0,), 11.0, 7.0, 4.0, 1),  # while it is written
        ((12.0,), 0.0, 7.0, 4.0, 1),  # when it has been written
        ((12.0, 15.0), 0.0, 10.0, 4.0, 2),  # and again while it is restarted
        ((33.0,), 9.0, 7.0, 4.0, 1),  # in the last interval, after which nothing is written
        ((5.0, 30.0), 5.0 + 6.0, 14.0, 4.0, 2),
        ((34.5,), 0.0, 0.0, 4.0, 0),  # when all is over
    ],
)
def test_work_since_the_last_checkpoint_is_lost(
    failures_s: tuple[float, ...], lost_s: float, restart_s: float, checkpoint_s: float, num_failures: int
) -> None:
    whole = recover(30.0, 10.0, 2.0, 7.0, at(*failures_s))
    assert (whole.lost_s, whole.restart_s, whole.checkpoint_s) == (lost_s, restart_s, checkpoint_s)
    assert whole.num_failures == num_failures
    assert whole.total_s == 30.0 + lost_s + restart_s + checkpoint_s


@given(
    gaps_s=st.lists(st.floats(0.01, 300), max_size=30),
    work_s=st.floats(1, 1000),
    interval_s=st.floats(0.5, 200),
    write_s=st.floats(0, 20),
    down_s=st.floats(0, 50),
)
def test_time_is_useful_or_lost_or_a_stop(
    gaps_s: list[float], work_s: float, interval_s: float, write_s: float, down_s: float
) -> None:
    whole = recover(work_s, interval_s, write_s, down_s, at(*np.cumsum(gaps_s)))
    if whole.downtimes:
        after_s = whole.total_s - whole.downtimes[-1].until_s
        assert -1e-9 <= after_s <= work_s + whole.checkpoint_s + 1e-9
    assert whole.lost_s == pytest.approx(sum(each.lost_s for each in whole.downtimes))
    assert all(each.lost_s <= interval_s + write_s + 1e-9 for each in whole.downtimes)
    assert whole.restart_s == pytest.approx(sum(each.until_s - each.failure.time_s for each in whole.downtimes))
    assert whole.num_failures <= len(gaps_s)
    fewer = recover(work_s, interval_s, write_s, 0.0, [])
    assert whole.total_s >= fewer.total_s - 1e-9


@pytest.mark.parametrize(("interval_s", "down_s"), [(600.0, 0.0), (600.0, 300.0), (3000.0, 900.0)])
def test_the_mean_total_of_exponential_failures_is_the_closed_form(interval_s: float, down_s: float) -> None:
    kinds = [("gpu", lifetime("10 h"), 10)]
    work_s, write_s = 7200.0, 60.0
    rng = stream(3, "failures")
    totals = [
        recover(work_s, interval_s, write_s, down_s, failure_times(kinds, lambda what, number: rng)).total_s
        for _ in range(3000)
    ]
    error = 4 * np.std(totals) / math.sqrt(len(totals))
    assert np.mean(totals) == pytest.approx(expected_s(work_s, interval_s, write_s, down_s, 3600.0), abs=error)


@pytest.mark.parametrize("write_s", [1.0, 60.0, 600.0])
def test_dalys_interval_is_the_minimum_of_the_expected_time(write_s: float) -> None:
    mtbf_s = 3600.0
    intervals = np.geomspace(0.1, 10, 2001) * daly_s(write_s, mtbf_s)
    cost = np.expm1((intervals + write_s) / mtbf_s) / intervals
    assert daly_s(write_s, mtbf_s) == pytest.approx(intervals[cost.argmin()], rel=0.02)


def test_young_and_daly_agree_for_fast_writes() -> None:
    assert daly_s(1e-3, 1e6) == pytest.approx(young_s(1e-3, 1e6), rel=1e-3)
    assert daly_s(10.0, 5.0) == 5.0


def test_the_simulated_optimum_is_dalys_for_exponential_failures() -> None:
    kinds = [("gpu", lifetime("10 h"), 10)]
    best_s, rows = best_interval(100 * 3600.0, 10.0, 60.0, 300.0, kinds, lambda run: stream(1, "search", run))
    assert best_s / daly_s(60.0, 3600.0) == pytest.approx(1.0, abs=0.35)  # the minimum is flat
    assert dict(rows)[best_s] == min(total_s for _, total_s in rows)
    assert all(interval_s % 10.0 == 0 for interval_s, _ in rows)
    for interval_s, total_s in rows:
        assert total_s == pytest.approx(expected_s(360_000.0, interval_s, 60.0, 300.0, 3600.0), rel=0.05)


def test_with_few_failures_few_checkpoints_are_best() -> None:
    kinds = [("gpu", lifetime("1000000 h"), 1)]
    best_s, _ = best_interval(3600.0, 1.0, 60.0, 60.0, kinds, lambda run: stream(1, "search", run))
    assert best_s == 3600.0


@pytest.mark.parametrize("down_s", [0.0, 50.0, 330.0])
@pytest.mark.parametrize("write_s", [1.0, 60.0, 400.0])
def test_a_training_that_is_hopeless_before_the_run_is_refused_in_the_run(write_s: float, down_s: float) -> None:
    kinds = [("gpu", lifetime("200 s"), 2)]
    work_s = 30_000.0
    is_refused = False
    try:
        best_interval(work_s, 0.5, write_s, write_s + down_s, kinds, lambda run: stream(0, run))
    except SimulationError:
        is_refused = True
    assert is_hopeless(work_s, write_s, write_s + down_s, job_mtbf_s(kinds)) == is_refused


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_there_are_at_least_as_many_failures_as_the_lower_bound(shape: float) -> None:
    kinds = [("gpu", lifetime("1 s", shape), 4)]
    come = [
        sum(1 for _ in takewhile(lambda each: each.time_s < 20, failure_times(kinds, rng_of(run))))
        for run in range(100)
    ]
    assert np.mean(come) >= least_failures(kinds, 20.0) - 2
    if shape == 1:
        assert np.mean(come) == pytest.approx(least_failures(kinds, 20.0), rel=0.05)


def test_a_training_that_cannot_end_is_refused() -> None:
    kinds = [("gpu", lifetime("1 h"), 3600)]
    with pytest.raises(SimulationError, match=r"a failure every 1.00 s on average, and a restart takes 5.00 min"):
        best_interval(3600.0, 1.0, 60.0, 300.0, kinds, lambda run: stream(1, "search", run))
    assert expected_s(3600.0, 1000.0, 60.0, 300.0, 1.0) == math.inf
    with pytest.raises(SimulationError, match="the training does not end"):
        recover(3600.0, 1000.0, 60.0, 300.0, (Failure(float(t), "gpu", 0) for t in range(400_000)))


GOOD: dict[str, Any] = {"gpu": {"mtbf": "1000 h"}, "checkpoint": {"write": "1 min"}}


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"gpu": None}, "give gpu or host"),
        ({"gpu": {"mtbf": "-3 h"}}, "must not be negative"),
        ({"gpu": {"mtbf": 0}}, "greater than 0"),
        ({"gpu": {"mtbf": "1 h", "shape": 0}}, "greater than or equal to 0.1"),
        ({"checkpoint": {}}, "give one of write, rate and host, for the time of a checkpoint .got none of them"),
        ({"checkpoint": {"write": "1 s", "rate": "1 GB/s"}}, "got write and rate"),
        ({"checkpoint": {"write": "1 s", "every": "often"}}, "'young', 'daly' or 'best'"),
        ({"checkpoint": {"write": "1 s", "every": 0}}, "greater than 0"),
        ({"checkpoint": {"rate": 0}}, "greater than 0"),
        ({"checkpoint": {"host": -1}}, "greater than or equal to 0"),
        ({"restart": "-1 min"}, "must not be negative"),
        ({"detection": 30}, "a number needs a unit"),
        ({"length": 0}, "greater than 0"),
        ({"mtbf": "3 h"}, "Extra inputs"),
    ],
)
def test_impossible_failures_are_refused(knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Failures.model_validate(GOOD | knobs)


def test_only_given_components_fail() -> None:
    failures = Failures.model_validate(GOOD | {"host": {"mtbf": "500 h"}})
    assert [(name, number) for name, _, number in failures.lifetimes(8, 2)] == [("gpu", 8), ("host", 2)]
    assert [name for name, _, _ in Failures.model_validate(GOOD).lifetimes(8, 2)] == ["gpu"]
