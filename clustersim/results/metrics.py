"""From columns to the figures people ask for: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clustersim.results.run import BREAKDOWN


def breakdown(parts: Mapping[str, np.ndarray] | Mapping[str, float], iteration_s: float) -> dict[str, float]:
    """Return the mean of each part over workers and iterations, in seconds; what is absent is 0.

    The parts must fill the iteration: a gap would be time that nobody can explain.
    """
    means = {name: float(np.mean(parts[name])) if name in parts else 0.0 for name in BREAKDOWN}
    total = sum(means.values())
    assert abs(total - iteration_s) <= 1e-9 * max(iteration_s, 1e-9), (means, iteration_s)
    return means


def staleness_summary(staleness: Sequence[int] | np.ndarray) -> dict[str, Any]:
    """Return mean, quantiles and histogram, one count a gradient applied.

    >>> staleness_summary([0, 0, 2, 2])["mean"]
    1.0
    """
    values = np.asarray(staleness, dtype=np.int64)
    if not len(values):
        return {"mean": None, "p50": None, "p99": None, "max": None, "histogram": []}
    return {
        "mean": float(values.mean()),
        "p50": float(np.quantile(values, 0.5)),
        "p99": float(np.quantile(values, 0.99)),
        "max": int(values.max()),
        "histogram": [[value, count] for value, count in sorted(Counter(values.tolist()).items())],
    }


def confidence_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return Student's interval of the mean, or None for fewer than two values.

    >>> confidence_interval([1.0]) is None
    True
    """
    if len(values) < 2:
        return None
    from scipy.special import stdtrit  # the quantile alone: scipy.stats takes a second to load

    sample = np.asarray(values, dtype=float)
    half = float(stdtrit(len(sample) - 1, 0.5 + level / 2)) * float(sample.std(ddof=1)) / len(sample) ** 0.5
    mean = float(sample.mean())
    return mean - half, mean + half
