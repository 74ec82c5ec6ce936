"""Expected slowness of the slowest of several GPUs of one kind, for which others wait."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import erfc, exp, expm1, lgamma, log, log1p, pi, sqrt
from typing import NamedTuple

import numpy as np

_WIDEST = 9.0  # standard deviations; none of a million GPUs is expected beyond them
_NUM_STEPS = 2400


class Awaited(NamedTuple):
    """How many workers a worker waits for, itself included: the `quickest` of all `workers`; all if equal."""

    quickest: int
    workers: int


@lru_cache(maxsize=256)
def slowest(variability: float, awaited: Awaited, members: int = 1) -> float:
    """Return the expected time of the last awaited worker, as a multiple of the mean GPU's time.

    During a job, a GPU takes longer than the mean of its kind by a lognormal factor of mean 1; `variability` is the
    factor's standard deviation. A worker is as slow as the slowest of its `members`. If all n workers are awaited, this
    is the expected maximum of n draws; otherwise the order statistic (David and Nagaraja, Order Statistics, 2003, 2.1):

        E = integral of exp(s z - s^2 / 2) dF(z),  F = B(k, n - k + 1) of Phi(z)^members,  s^2 = log(1 + variability^2)

    >>> slowest(0.02, Awaited(1, 1))
    1.0
    >>> round(slowest(0.02, Awaited(8, 8)), 4), slowest(0.02, Awaited(2, 2), 4) == slowest(0.02, Awaited(8, 8))
    (1.0287, True)
    """
    quickest, workers = awaited
    if not variability or workers * members == 1:
        return 1.0
    if quickest == workers:
        quickest, workers, members = 1, 1, workers * members
    sigma = sqrt(log1p(variability**2))
    z = np.linspace(-_WIDEST, _WIDEST, _NUM_STEPS + 1)
    scale = lgamma(workers + 1) - lgamma(quickest) - lgamma(workers - quickest + 1)
    density = [exp(scale + _log_density(each, quickest, workers, members)) for each in z.tolist()]
    drawn = np.exp(sigma * z - sigma**2 / 2)
    return float((drawn * density).sum() * (z[1] - z[0]))  # both ends are 0: this is the trapezoid rule


def _log_density(z: float, quickest: int, workers: int, members: int) -> float:
    """Return the logarithm of an order statistic's density at z, without its binomial factor."""
    below, above = erfc(-z / sqrt(2)) / 2, erfc(z / sqrt(2)) / 2
    log_below = log(below) if z < 0 else log1p(-above)
    log_above = log(-expm1(members * log_below))
    normal = -z * z / 2 - log(2 * pi) / 2
    own = log(members) + (members - 1) * log_below + normal
    return own + (quickest - 1) * members * log_below + (workers - quickest) * log_above


def slowest_beside(variability: float, factors: np.ndarray) -> np.ndarray:
    """Return how many times as long as the mean GPU each rank takes, `factors` [num_ranks] of it by a known slowdown.

    All ranks wait for each other. A rank with factor f takes as long as the slowest of all would be if none had a
    factor above f:

        E[max over j of min(f_j, f) X_j],  X_j lognormal of mean 1 and standard deviation `variability`

    So equal factors f give f times `slowest`, one factor far above the others gives just that factor, and a larger
    factor never makes any rank quicker.

    >>> slowest_beside(0.02, np.array([1.0, 1.0, 4.0, 1.0])).round(4).tolist()
    [1.0207, 1.0207, 4.0, 1.0207]
    """
    levels, inverse, counts = np.unique(factors, return_inverse=True, return_counts=True)
    each = [
        level * _expected_maximum(variability, levels[: number + 1] / level, (*counts[:number], counts[number:].sum()))
        for number, level in enumerate(levels.tolist())
    ]
    found: np.ndarray = np.array(each)[inverse]
    return found


def _expected_maximum(variability: float, scales: np.ndarray, counts: Sequence[int]) -> float:
    """Return the expected maximum of `counts` [n] draws at each of some `scales` [n], of which the last is 1."""
    if not variability or sum(counts) == 1:
        return 1.0
    if len(scales) == 1:
        return slowest(variability, Awaited(int(counts[0]), int(counts[0])))
    from scipy.special import log_ndtr  # scipy takes long to load

    sigma = sqrt(log1p(variability**2))
    z = np.linspace(-_WIDEST, _WIDEST, _NUM_STEPS + 1)
    log_below, hazard = np.zeros(len(z)), np.zeros(len(z))
    for scale, count in zip(scales.tolist(), counts, strict=True):
        at = z - log(scale) / sigma
        log_below += count * log_ndtr(at)
        hazard += count * np.exp(-at * at / 2 - log(2 * pi) / 2 - log_ndtr(at))
    density = np.exp(log_below) * hazard
    return float((np.exp(sigma * z - sigma**2 / 2) * density).sum() * (z[1] - z[0]))
