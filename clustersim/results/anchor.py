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
class MeasuredNetwork:
    """A transport fitted to logs of collectives: its constants before and after, SI, and its errors on the figures."""

    transport: str
    logs: tuple[str, ...]
    num_figures: int
    median_abs_error: float
    median_abs_error_without: float
    constants: Mapping[str, tuple[float, float]]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> MeasuredNetwork:
        """Return the fit of a JSON document, with lists as tuples."""
        constants = {key: tuple(pair) for key, pair in document["constants"].items()}
        return cls(**{**document, "logs": tuple(document["logs"]), "constants": constants})


@dataclass(frozen=True)
class Anchor:
    """The factor on the times of kernels, the seconds more in every iteration, and the measured runs behind them.

    `samples_per_s_without` and `iteration_s_without` are what the run's forecast would be without measured runs and
    logs. `network` is set if the transport was fitted to logs of collectives.
    """

    factor: float
    fixed_s: float
    samples_per_s_without: float
    iteration_s_without: float
    points: tuple[MeasuredPoint, ...]
    network: MeasuredNetwork | None = None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Anchor:
        """Return the anchor of a JSON document."""
        points = tuple(MeasuredPoint(**point) for point in document["points"])
        network = document.get("network")
        fitted = None if network is None else MeasuredNetwork.from_dict(network)
        return cls(**{**document, "points": points, "network": fitted})
