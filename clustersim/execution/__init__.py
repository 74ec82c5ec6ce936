"""Execution: runs the workers of a job on the simulated clock.

`worker` is one SimPy process for each worker. `vectorized_workers` computes the same times in arrays, where a strategy
allows it. `layout_executor` runs the programs of ranks that share a copy of the model. `rendezvous` holds the
collectives in which workers exchange gradients. This package knows devices and the network; it does not know when
gradients are exchanged: `clustersim.strategies` says that.
"""

from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange
from clustersim.execution.window import Window

__all__ = ["Exchange", "Job", "Window"]
