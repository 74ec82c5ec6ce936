"""Many runs of one scenario: every point of its axes, one after the other or a chosen few.

A sweep knows scenarios and how to have them simulated; what comes out is plain data.
"""

from clustersim.sweep.points import sweep

__all__ = ["sweep"]
