"""How sure it is that one run is faster than another."""

from __future__ import annotations

from clustersim.results import Run
from clustersim.results.comparing import share_within

_LIKELY, _SURE = 0.5, 0.9
"""Shares of checked pairs of forecasts whose ratio was off by less: a difference is then `probably` there, or sure."""

OF_SEEDS, OF_ERRORS = "within the spread over seeds", "less than the error of a comparison"
"""What is said of differences that need not be there."""


def hint(best: Run, other: Run) -> str:
    """Return how sure it is that one run is faster than another; empty where it is sure."""
    pairs = [run.interval.samples_per_s for run in (best, other) if run.interval is not None]
    if len(pairs) == 2 and pairs[0][0] <= pairs[1][1]:
        return OF_SEEDS
    return sureness(best.samples_per_s / other.samples_per_s)


def sureness(factor: float) -> str:
    """Return how sure it is that two forecasts differ whose ratio is `factor`; empty where it is sure."""
    share = share_within(factor)
    return "" if share >= _SURE else "probably" if share >= _LIKELY else OF_ERRORS


def in_parentheses(text: str) -> str:
    """Return a text in parentheses after a space; nothing for an empty one."""
    return f" ({text})" if text else ""
