"""Sweeps: one run per point of a scenario's axes, sequentially or in several processes.

It simulates the points of a scenario; the results are plain data.
"""

from clustersim.sweep.points import sweep

__all__ = ["sweep"]
