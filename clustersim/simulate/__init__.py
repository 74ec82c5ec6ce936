"""Simulates one point of a scenario: builds its cluster and its job, runs them and returns a `Run`."""

from clustersim.simulate.anchoring import AnchorFit, fit_anchors, fit_scenario, forecast_anchored
from clustersim.simulate.collective import time_collective
from clustersim.simulate.forecast import Forecast, forecast
from clustersim.simulate.setup import Workloads
from clustersim.simulate.single_point import simulate

__all__ = [
    "AnchorFit",
    "Forecast",
    "Workloads",
    "fit_anchors",
    "fit_scenario",
    "forecast",
    "forecast_anchored",
    "simulate",
    "time_collective",
]
