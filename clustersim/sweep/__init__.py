"""Sweeps: one run per point of a scenario's axes, in this process, in several, or on a cluster.

It simulates the points of a scenario; the results are plain data, in memory or in a ledger.
"""

from clustersim.sweep.executor_by_name import EXECUTORS, open_executor
from clustersim.sweep.none_ran import check_ran
from clustersim.sweep.points import sweep

__all__ = ["EXECUTORS", "check_ran", "open_executor", "sweep"]
