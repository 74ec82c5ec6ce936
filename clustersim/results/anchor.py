"""What measured runs have changed in a forecast: plain data of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured run: its figure `measured`, and forecasts of it, in the unit of its `metric`.

    `forecast` is that with the anchor. `leave_one_out_error` is forecast / measured - 1 where only the other measured
    runs are known; None if there are no others, or if they allow no factor. `set` are its own keys.
    """

    num_gpus: int
    metric: str  # samples_per_s, iteration_s
    measured: float
    forecast_without: float
    forecast: float
    leave_one_out_error: float | None
    set: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True)
class Anchor:
    """The factor on the times of kernels, the seconds more in every iteration, and the measured runs behind them.

    `samples_per_s_without` and `iteration_s_without` are what the run's forecast would be without them.
    """

    factor: float
    fixed_s: float
    samples_per_s_without: float
    iteration_s_without: float
    points: tuple[MeasuredPoint, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Anchor:
        """Return the anchor of a JSON document."""
        points = tuple(MeasuredPoint(**point) for point in document["points"])
        return cls(**{**document, "points": points})
