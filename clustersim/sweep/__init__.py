"""Sweeps: one run per point of a scenario's axes, sequentially or in several processes.

It simulates the points of a scenario; the results are plain data.
"""

from clustersim.sweep.none_ran import check_ran
from clustersim.sweep.points import sweep

__all__ = ["check_ran", "sweep"]
