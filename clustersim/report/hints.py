"""How sure it is that one run is faster than another."""

from __future__ import annotations

from clustersim.results import Run
from clustersim.results.comparing import share_within

_LIKELY, _SURE = 0.5, 0.9
"""Shares of checked pairs of forecasts whose ratio was off by less: a difference is then `probably` there, or sure."""


def hint(best: Run, other: Run) -> str:
    """Return how sure it is that one run is faster than another; empty where it is sure."""
    pairs = [run.interval.samples_per_s for run in (best, other) if run.interval is not None]
    if len(pairs) == 2 and pairs[0][0] <= pairs[1][1]:
        return "within the spread over seeds"
    share = share_within(best.samples_per_s / other.samples_per_s)
    return "" if share >= _SURE else "probably" if share >= _LIKELY else "less than the error of a comparison"


def in_parentheses(text: str) -> str:
    """Return a text in parentheses after a space; nothing for an empty one."""
    return f" ({text})" if text else ""
