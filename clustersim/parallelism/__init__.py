"""How a model is laid over GPUs: split layer by layer, cut into stages, copied; and the programs that come of it.

A layout is numbers and lists: no clock and no network in here.
"""

from clustersim.parallelism.grid import AXES, REPLICAS, Grid
from clustersim.parallelism.layout import LaidOut, Training, lay_out
from clustersim.parallelism.schedules import SCHEDULES
from clustersim.parallelism.spec import Parallelism, micro_batch_of

__all__ = [
    "AXES",
    "REPLICAS",
    "SCHEDULES",
    "Grid",
    "LaidOut",
    "Parallelism",
    "Training",
    "lay_out",
    "micro_batch_of",
]
