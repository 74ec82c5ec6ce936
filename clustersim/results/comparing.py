"""How far apart two forecasts of one scenario must be: the errors of ratios of checked forecasts.

Errors of forecasts that share a model, devices and a program are alike, so the ratio of two of them is surer than each
alone: bands that overlap do not say that two settings are equally fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import numpy as np

from clustersim.results.band import Checked
from clustersim.results.checked import shipped_forecasts


def share_within(factor: float) -> float:
    """Return the share of pairs of checked forecasts whose ratio was wrong by less than a factor.

    >>> share_within(1.0), share_within(1e9)
    (0.0, 1.0)
    """
    errors, weights = _shipped_errors()
    return _share(errors, weights, factor)


def share_of(forecasts: Iterable[Checked], factor: float) -> float:
    """Return that share for these checked forecasts; every source has the same weight."""
    return _share(*_errors(forecasts), factor)


def _share(errors: np.ndarray, weights: np.ndarray, factor: float) -> float:
    return min(1.0, float(weights[errors < abs(np.log(factor))].sum()))


@cache
def _shipped_errors() -> tuple[np.ndarray, np.ndarray]:
    return _errors(shipped_forecasts().of_anchored(False))


def _errors(forecasts: Iterable[Checked]) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of the ratios of two forecasts of one case, as logarithms, and the weight of each [num_pairs].

    The error of the ratio of forecasts a and b is (measured a / forecast a) / (measured b / forecast b).
    """
    cases: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in forecasts:
        cases[each.source, each.case] += each.ratios
    sources: dict[str, list[np.ndarray]] = defaultdict(list)
    for (source, _), ratios in cases.items():
        logarithms = np.log(ratios)
        first, second = np.triu_indices(len(ratios), 1)
        sources[source].append(np.abs(logarithms[first] - logarithms[second]))
    found = [pairs for parts in sources.values() if len(pairs := np.concatenate(parts))]
    if not found:
        return np.zeros(0), np.zeros(0)
    weights = [np.full(len(pairs), 1.0 / len(pairs) / len(found)) for pairs in found]
    return np.concatenate(found), np.concatenate(weights)
