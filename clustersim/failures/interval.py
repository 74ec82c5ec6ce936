"""Checkpoint intervals: the optima of Young and Daly, the expected time, and the best of a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import numpy as np

from clustersim.failures.lifetimes import Failure, Kinds, failure_times, job_mtbf_s
from clustersim.failures.recovery import never_ends, recover, writes_needed

_STEPS_OF_TWO = 4  # candidates between an interval and twice that
_OCTAVES = 3  # below and above Young's optimum
_NUM_FAILURES = 2000  # in all runs of an interval together
_MOST_RUNS = 200
_WORST = 20.0  # times the work: intervals with a longer expected time are not simulated
_MOST_EXPONENT = 650.0


def young_s(write_s: float, mtbf_s: float) -> float:
    """Return sqrt(2 write mtbf), the interval of useful work (Young, A first order approximation to the optimum
    checkpoint interval, 1974).

    >>> young_s(50.0, 3600.0)
    600.0
    """
    return math.sqrt(2 * write_s * mtbf_s)


def daly_s(write_s: float, mtbf_s: float) -> float:
    """Return the interval of useful work that is optimal to a higher order (Daly, A higher order estimate of the
    optimum checkpoint interval for restart dumps, 2006).

    sqrt(2 write mtbf) (1 + x / 3 + x**2 / 9) - write with x = sqrt(write / (2 mtbf)), and mtbf where write is at
    least twice that.
    """
    if write_s >= 2 * mtbf_s:
        return mtbf_s
    x = math.sqrt(write_s / (2 * mtbf_s))
    return young_s(write_s, mtbf_s) * (1 + x / 3 + x**2 / 9) - write_s


def expected_s(work_s: float, interval_s: float, write_s: float, down_s: float, mtbf_s: float) -> float:
    """Return the mean total time of `recover` for exponential failures.

    Each interval of length s, the write included, takes mtbf e**(down / mtbf) (e**(s / mtbf) - 1) on average
    (Daly, 2006; a failure may also come within `down_s`); the last interval has no write. Infinite beyond 1e300 s.
    """
    num_writes = writes_needed(work_s, interval_s)
    last_s = work_s - num_writes * interval_s
    if max(interval_s + write_s, last_s) / mtbf_s + down_s / mtbf_s > _MOST_EXPONENT:
        return math.inf
    whole = num_writes * math.expm1((interval_s + write_s) / mtbf_s) + math.expm1(last_s / mtbf_s)
    return mtbf_s * math.exp(down_s / mtbf_s) * whole


def is_hopeless(work_s: float, write_s: float, down_s: float, mtbf_s: float) -> bool:
    """Return whether a training is expected to take too long to simulate, even at the best interval.

    The interval is any real number here, so intervals of whole iterations can only be worse: `expected_s` has one
    minimum, between write_s / 1000 and the whole work.
    """
    least_s = max(min(write_s, work_s) / 1000, work_s * 1e-9)
    intervals_s = np.geomspace(least_s, work_s, 400).tolist()
    return min(expected_s(work_s, each, write_s, down_s, mtbf_s) for each in intervals_s) >= _WORST * work_s


def best_interval(
    work_s: float,
    step_s: float,
    write_s: float,
    down_s: float,
    kinds: Kinds,
    rng_of: Callable[[int], np.random.Generator],
) -> tuple[float, list[tuple[float, float]]]:
    """Return the best interval of a simulation, and all compared intervals: rows of (interval_s, mean total_s).

    Intervals are whole steps (iterations) of `step_s` from an eighth of Young's optimum to eight times it, and
    the whole work, except those with a too long expected time. All have the same failures: `rng_of(run)` is the
    random stream of one run.
    """
    mtbf_s = job_mtbf_s(kinds)
    candidates = [
        interval_s
        for interval_s in _candidates(work_s, step_s, young_s(write_s, mtbf_s))
        if expected_s(work_s, interval_s, write_s, down_s, mtbf_s) < _WORST * work_s
    ]
    if not candidates:
        raise never_ends(mtbf_s, down_s)
    num_runs = min(_MOST_RUNS, max(1, round(_NUM_FAILURES * mtbf_s / work_s)))
    totals_s = np.zeros(len(candidates))
    for run in range(num_runs):
        rng = rng_of(run)
        failures = _CachedFailures(failure_times(kinds, partial(_same, rng)))
        totals_s += [recover(work_s, interval_s, write_s, down_s, failures).total_s for interval_s in candidates]
    rows = list(zip(candidates, (totals_s / num_runs).tolist(), strict=True))
    return min(rows, key=lambda row: row[1])[0], rows


def _candidates(work_s: float, step_s: float, around_s: float) -> Iterator[float]:
    most = max(1, math.ceil(work_s / step_s * (1 - 1e-12)))
    powers = np.arange(-_OCTAVES * _STEPS_OF_TWO, _OCTAVES * _STEPS_OF_TWO + 1) / _STEPS_OF_TWO
    steps = np.clip(np.round(around_s / step_s * 2.0**powers), 1, most).astype(np.int64)
    yield from (np.unique([*steps.tolist(), most]) * step_s).tolist()


def _same(rng: np.random.Generator, what: str, number: int) -> np.random.Generator:
    return rng


class _CachedFailures:
    """Failures that are drawn once and iterated many times."""

    def __init__(self, failures: Iterator[Failure]):
        self._rest = failures
        self._known: list[Failure] = []

    def __iter__(self) -> Iterator[Failure]:
        for number in count():
            if number == len(self._known):
                self._known.append(next(self._rest))
            yield self._known[number]
