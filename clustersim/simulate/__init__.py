"""The composition root: a scenario's point goes in, its cluster and job are built and played, a `Run` comes out."""

from clustersim.simulate.collective import time_collective
from clustersim.simulate.forecast import Forecast, forecast, simulate
from clustersim.simulate.workloads import Workloads

__all__ = ["Forecast", "Workloads", "forecast", "simulate", "time_collective"]
