"""Summary figures of a run, computed from columns by pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clustersim.results.run import BREAKDOWN, LinkClass, LinkLoad


def breakdown(parts: Mapping[str, np.ndarray] | Mapping[str, float], iteration_s: float) -> dict[str, float]:
    """Return the mean of each part over workers and iterations, in seconds; absent parts are 0.

    The parts must sum to the iteration: no time may be unexplained.
    """
    means = {name: float(np.mean(parts[name])) if name in parts else 0.0 for name in BREAKDOWN}
    total = sum(means.values())
    assert abs(total - iteration_s) <= 1e-9 * max(iteration_s, 1e-9), (means, iteration_s)
    return means


def staleness_summary(staleness: Sequence[int] | np.ndarray) -> dict[str, Any]:
    """Return mean, quantiles and histogram of the staleness of applied gradients.

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
    """Return Student's t interval of the mean, or None for fewer than two values.

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


def link_classes(
    names: Sequence[str], kinds: np.ndarray, bytes_per_s: np.ndarray, num_bytes: np.ndarray, seconds: float
) -> tuple[LinkClass, ...]:
    """Return the load of each class of links in an iteration of `seconds` that carries `num_bytes` [num_links].

    `kinds` [num_links] is the class of each link, as its index in `names`.
    """
    utilisation = num_bytes / bytes_per_s / seconds
    classes = []
    for number, name in enumerate(names):
        members = kinds == number
        busiest = int(np.argmax(np.where(members, utilisation, -1.0)))
        classes.append(
            LinkClass(
                kind=name,
                num_links=int(members.sum()),
                num_used=int((members & (num_bytes > 0)).sum()),
                num_bytes=float(num_bytes[members].sum()),
                max_utilisation=float(utilisation[busiest]),
                bytes_per_s=float(bytes_per_s[busiest]),
            )
        )
    return tuple(classes)


def busiest_links(
    describe: Callable[[int], tuple[str, str, str]],
    bytes_per_s: np.ndarray,
    num_bytes: np.ndarray,
    seconds: float,
    limit: int = 400,
) -> tuple[LinkLoad, ...]:
    """Return the busiest links, the busiest first; `describe` returns a link's ends and kind."""
    utilisation = num_bytes / bytes_per_s / seconds
    used = np.flatnonzero(num_bytes > 0)
    order = used[np.argsort(-utilisation[used], kind="stable")][:limit]
    loads = []
    for link in order.tolist():
        src, dst, kind = describe(link)
        loads.append(LinkLoad(f"{src} -> {dst}", kind, src, dst, float(num_bytes[link]), float(utilisation[link])))
    return tuple(loads)
