"""Simulates one point of a scenario: builds its cluster and its job, runs them and returns a `Run`."""

from clustersim.simulate.collective import time_collective
from clustersim.simulate.forecast import Forecast, forecast, simulate
from clustersim.simulate.setup import Workloads

__all__ = ["Forecast", "Workloads", "forecast", "simulate", "time_collective"]
