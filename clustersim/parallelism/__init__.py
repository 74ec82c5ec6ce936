"""How a model is laid over GPUs: split layer by layer, cut into stages, copied; and the programs that come of it.

A layout is numbers and lists: no clock and no network in here.
"""

from clustersim.parallelism.grid import AXES, COLLECTIVE_AXES, PEERS, REPLICAS, SHARERS, Grid
from clustersim.parallelism.layout import LaidOut, Training, lay_out
from clustersim.parallelism.schedules import SCHEDULES
from clustersim.parallelism.spec import Parallelism, micro_batch_of

__all__ = [
    "AXES",
    "COLLECTIVE_AXES",
    "PEERS",
    "REPLICAS",
    "SCHEDULES",
    "SHARERS",
    "Grid",
    "LaidOut",
    "Parallelism",
    "Training",
    "lay_out",
    "micro_batch_of",
]
