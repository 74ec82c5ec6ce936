"""Which training is the first at each loss or accuracy, and where another one takes the lead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from clustersim.results.learning import Curve, CurvePoint, LearningRun

Metric = Literal["loss", "accuracy"]

NUM_LEVELS = 160

_FIRST_SHARE = 10
"""One over the share of the levels, the first ones, that do not count: all trainings pass them within a moment."""

_EQUAL = 1.01
"""Ratio of two times up to which they are called equal."""

_CHANGE = 2.0
"""What a change of the lead has to gain: levels times the logarithm of the ratio of the times.

About a twelfth of the levels with a ratio of 1.16.
"""

_ALIKE, _MOST = 0.05, 0.8
"""A training is an equal up to this mean logarithm of the ratio of the times, or if as fast at this share of levels."""

_LEAST_ERROR, _TINY_S = 1e-4, 1e-12


class Lead(NamedTuple):
    """The levels from one to another at which a training is the first.

    `first` is its number among the trainings, and `equals` are the numbers of those that are as fast on average.
    `level` is the last loss or accuracy, and `seconds` is when the first training reaches it, a mean over seeds.
    """

    first: int
    equals: tuple[int, ...]
    level: float
    seconds: float


def error_of(value: float, metric: Metric) -> float:
    """Return a loss, or 1 - an accuracy: what a training makes small."""
    return value if metric == "loss" else 1.0 - value


def value_of(point: CurvePoint, metric: Metric) -> float | None:
    """Return the loss or the accuracy of an evaluation."""
    return point.loss if metric == "loss" else point.accuracy


def reach_times(curve: Curve, metric: Metric, errors: np.ndarray) -> np.ndarray:
    """Return the seconds of the first evaluation with at most each of some errors [num_errors]; inf where none has.

    >>> curve = (CurvePoint(0.0, 0, 2.0, None), CurvePoint(3.0, 1, 0.5, None), CurvePoint(6.0, 2, 0.7, None))
    >>> reach_times(curve, "loss", np.array([1.0, 0.6, 0.1])).tolist()
    [3.0, 3.0, inf]
    """
    known = [(point.seconds, value) for point in curve if (value := value_of(point, metric)) is not None]
    best = np.minimum.accumulate([error_of(value, metric) for _, value in known] or [np.inf])
    seconds = np.array([*(time_s for time_s, _ in known), np.inf])
    places = np.searchsorted(-best, -errors, side="left")
    return seconds[np.minimum(places, len(known))]


def seed_curves(training: LearningRun) -> Sequence[Curve]:
    """Return the curve of each seed; the mean one of a result without them."""
    return training.seed_curves or (training.curve,)


class Reached(NamedTuple):
    """When each seed first has each of some errors [seeds, errors], and the seconds between two evaluations."""

    seconds: np.ndarray
    resolution_s: float

    def at(self, level: int) -> Reached:
        """Return the seconds of one error alone [seeds]."""
        return Reached(self.seconds[:, level], self.resolution_s)


def reached(training: LearningRun, metric: Metric, errors: np.ndarray) -> Reached:
    """Return when the seeds of a training have some errors."""
    curves = seed_curves(training)
    gaps = [curve[-1].seconds / (len(curve) - 1) for curve in curves if len(curve) > 1]
    return Reached(np.array([reach_times(curve, metric, errors) for curve in curves]), max(gaps, default=0.0))


def leads(trainings: Sequence[LearningRun], metric: Metric, target: float | None = None) -> list[Lead]:
    """Return who is the first at each level, from the worst level on, with few changes.

    The time to a level is that of `time_to_target_s`: the mean over seeds of the first evaluation that has it, and a
    training where a seed has not is no candidate. A training keeps the lead until another one is faster by more than
    the seeds' spread (`is_faster`) at enough levels (_CHANGE). The levels go from the first weights to the target, or
    to the best that all seeds of some training have if that is worse. They are spaced by the logarithm of the error,
    and the first tenth of them does not count.
    """
    errors = _levels(trainings, metric, target)
    if not len(errors):
        return []
    times = [reached(each, metric, errors) for each in trainings]
    means = np.array([each.seconds.mean(axis=0) for each in times])
    fastest = means.argmin(axis=0)
    slower = np.array([[_excess(times[fastest[level]].at(level), each.at(level)) for level in range(len(errors))]
                       for each in times])  # fmt: skip
    return [
        Lead(first, equals, _value(float(errors[end - 1]), metric), float(means[first, end - 1]))
        for first, equals, end in _segments(slower)
    ]


def is_faster(one: Reached, other: Reached) -> bool:
    """Return whether one training has an error earlier than another by more than chance; both are at one level.

    Seed number k has the same samples and the same stragglers in both: their ratio is taken seed by seed. The 95 %
    confidence interval of its mean (Student) must leave out 1, and the times be further apart than two evaluations.

    >>> one, other = Reached(np.array([10.0, 12.0, 11.0]), 0.1), Reached(np.array([11.0, 13.0, 12.0]), 0.1)
    >>> is_faster(one, other), is_faster(one, Reached(np.array([11.0, 11.8, 12.0]), 0.1))
    (True, False)
    """
    number = min(len(one.seconds), len(other.seconds))
    first, second = one.seconds[:number], other.seconds[:number]
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return bool(np.isfinite(first).all())
    ratios = np.log(np.maximum(second, _TINY_S) / np.maximum(first, _TINY_S))
    spread = _student(number) * float(ratios.std(ddof=1)) / number**0.5 if number > 1 else 0.0
    is_beyond_evaluations = float((second - first).mean()) > max(one.resolution_s, other.resolution_s)
    return is_beyond_evaluations and float(ratios.mean()) > max(spread, float(np.log(_EQUAL)))


@cache
def _student(number: int) -> float:
    """Return how many standard errors the 95 % interval of the mean of so many values is to each side."""
    from scipy.special import stdtrit  # the quantile alone: scipy.stats takes a second to load

    return float(stdtrit(number - 1, 0.975))


def _excess(fastest: Reached, other: Reached) -> float:
    """Return the logarithm of the ratio of two mean times; 0 where chance may have made it, inf without a time."""
    if not np.isfinite(other.seconds).all():
        return float("inf")
    if not is_faster(fastest, other):
        return 0.0
    return float(np.log(other.seconds.mean() / max(float(fastest.seconds.mean()), _TINY_S)))


def _segments(slower: np.ndarray) -> list[tuple[int, tuple[int, ...], int]]:
    """Return the training with the lead, its equals, and the end, for each stretch of levels.

    `slower` [trainings, levels] is how much slower each is than the fastest. The leads have the least sum of it, with
    _CHANGE for each change (dynamic programming).
    """
    num, num_levels = slower.shape
    cost, before = slower[:, 0].copy(), np.zeros((num_levels, num), dtype=int)
    for level in range(1, num_levels):
        from_other = int(cost.argmin())
        stays = cost <= cost[from_other] + _CHANGE
        before[level] = np.where(stays, np.arange(num), from_other)
        cost = np.where(stays, cost, cost[from_other] + _CHANGE) + slower[:, level]
    leaders = [int(cost.argmin())]
    for level in range(num_levels - 1, 0, -1):
        leaders.append(int(before[level][leaders[-1]]))
    leaders.reverse()
    ends = [level + 1 for level in range(num_levels) if level + 1 == num_levels or leaders[level + 1] != leaders[level]]
    found, begin = [], 0
    for end in ends:
        first, part = leaders[begin], slower[:, begin:end]
        mean, even = part.mean(axis=1), (part == 0).mean(axis=1)
        is_equal = (mean <= max(_ALIKE, mean[first])) | (even >= _MOST)
        found.append((first, tuple(number for number in range(num) if number != first and is_equal[number]), end))
        begin = end
    return found


def _levels(trainings: Sequence[LearningRun], metric: Metric, target: float | None) -> np.ndarray:
    """Return the errors at which trainings are compared, the largest first; empty where none gets better."""
    all_curves = [seed_curves(each) for each in trainings]
    found = [[_errors(curve, metric) for curve in curves] for curves in all_curves]
    if not found or not all(errors for curves in found for errors in curves):
        return np.array([])
    start = min(errors[0] for curves in found for errors in curves)
    best = max(min(max(min(errors) for errors in curves) for curves in found), _LEAST_ERROR)
    end = best if target is None else max(best, error_of(target, metric))
    if end >= start:
        return np.array([])
    levels = np.geomspace(start, end, NUM_LEVELS + 1)
    levels[-1] = end
    return levels[1 + NUM_LEVELS // _FIRST_SHARE :]


def _errors(curve: Curve, metric: Metric) -> list[float]:
    return [error_of(value, metric) for point in curve if (value := value_of(point, metric)) is not None]


def _value(error: float, metric: Metric) -> float:
    return error if metric == "loss" else 1.0 - error
