"""Checks of casts to 8 bits: what shards of weights need that are cast before a gather."""

from __future__ import annotations

from clustersim.errors import Mistake
from clustersim.scenario.exclusions import exclusions
from clustersim.scenario.keys import PointKeys


def casts_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why weights cannot be gathered in 8 bits: they must be sharded, and have one scale."""
    if point.compute.casts != "torchao-sharded":
        return []
    sharding, precision = point.parallelism.sharding, point.precision
    reasons = {
        f"sharding: {sharding or 'none'}": sharding != "zero-3",
        f"precision {precision}": precision != "amp-fp8",
    }
    about = Mistake(
        "shards of weights are gathered in 8 bits with sharding zero-3 and precision amp-fp8 (got OTHER)",
        key="compute.casts",
        got="torchao-sharded",
        allowed="with parallelism.sharding: zero-3 and precision: amp-fp8",
    )
    return exclusions(about, reasons)
