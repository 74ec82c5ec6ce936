"""Accuracy of the forecasts: errors of points, of cases, and overall. Pure functions of numbers.

The error of a point is simulated / measured - 1. Every case has equal weight, however many points it has: the median
over cases is the median of their medians, and the percentile and the bias give each case the same weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

RANKED_FROM = 0.05
"""Two synchronization methods are ranked if their measured figures differ by more than this share."""


@dataclass(frozen=True)
class Summary:
    """The summary of a set of points; values are None if there is no point for them.

    `bias` is the geometric mean error: exp(mean log(simulated / measured)) - 1.
    """

    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None
    ordering_correct: float | None
    num_points: int
    num_orderings: int


@dataclass(frozen=True)
class RankedPoint:
    """A point for ranking: points of one group differ only in their synchronization method."""

    group: str
    method: str
    simulated: float
    measured: float


def summarise(errors: Sequence[Sequence[float]], orderings: Sequence[bool] = ()) -> Summary:
    """Return the summary of the errors of each case, and of pairs that were ranked correctly or not.

    >>> summarise([[0.1, -0.1, 0.4], [0.3]]).median_abs_error
    0.2
    """
    cases = [list(case) for case in errors if case]
    right = sum(orderings) / len(orderings) if orderings else None
    if not cases:
        return Summary(None, None, None, right, 0, len(orderings))
    sizes = [[abs(error) for error in case] for case in cases]
    logarithms = [sum(math.log1p(error) for error in case) / len(case) for case in cases]
    return Summary(
        median_abs_error=median(median(case) for case in sizes),
        p90_abs_error=weighted_percentile(sizes, 0.9),
        bias=math.expm1(sum(logarithms) / len(logarithms)),
        ordering_correct=right,
        num_points=sum(map(len, cases)),
        num_orderings=len(orderings),
    )


def weighted_percentile(groups: Sequence[Sequence[float]], share: float) -> float:
    """Return the smallest value that at least `share` of the weight does not exceed; groups have equal weight.

    >>> weighted_percentile([[1, 2, 3, 4]], 0.5), weighted_percentile([[1, 2], [10]], 0.5)
    (2.0, 2.0)
    """
    values = np.array([value for group in groups for value in group], dtype=float)
    weights = np.array([1.0 / len(group) for group in groups for _ in group])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(reached, share - 1e-12)])


def orderings(points: Sequence[RankedPoint]) -> list[bool]:
    """Return for every pair with measured values more than 5 % apart whether the simulated order is the same."""
    found = []
    for one, other in combinations(points, 2):
        if one.group != other.group or one.method == other.method:
            continue
        measured = one.measured / other.measured
        if max(measured, 1.0 / measured) > 1.0 + RANKED_FROM:
            found.append((one.simulated > other.simulated) == (measured > 1.0) and one.simulated != other.simulated)
    return found
