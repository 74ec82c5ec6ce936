"""Sweeps: one run per point of a scenario's axes, sequentially or in several processes.

It simulates the points of a scenario; the results are plain data.
"""

from clustersim.sweep.executor_by_name import EXECUTORS, open_executor
from clustersim.sweep.points import sweep

__all__ = ["EXECUTORS", "open_executor", "sweep"]
