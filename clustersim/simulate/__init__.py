"""Simulates one point of a scenario: builds its cluster and its job, runs them and returns a `Run`."""

from clustersim.simulate.anchoring import AnchorFit, fit_anchors, fit_scenario, forecast_anchored
from clustersim.simulate.collective import time_collective
from clustersim.simulate.forecast import Forecast, forecast
from clustersim.simulate.learning import check_can_learn, training_cpu_s
from clustersim.simulate.setup import Workloads
from clustersim.simulate.single_point import simulate

__all__ = [
    "AnchorFit",
    "Forecast",
    "Workloads",
    "check_can_learn",
    "fit_anchors",
    "fit_scenario",
    "forecast",
    "forecast_anchored",
    "simulate",
    "time_collective",
    "training_cpu_s",
]
