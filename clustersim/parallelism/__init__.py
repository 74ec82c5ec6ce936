"""How a model is laid over GPUs: split layer by layer, cut into stages, copied; and the programs that come of it.

A layout is numbers and lists: no clock and no network in here.
"""

from clustersim.parallelism.grid import AXES, COLLECTIVE_AXES, REPLICAS, REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.parallelism.layout import ModelLayout, Training, lay_out
from clustersim.parallelism.schedules import SCHEDULES
from clustersim.parallelism.spec import Parallelism, micro_batch_of

__all__ = [
    "AXES",
    "COLLECTIVE_AXES",
    "REPLICAS",
    "REPLICATE_GROUP",
    "SCHEDULES",
    "SHARD_GROUP",
    "Grid",
    "ModelLayout",
    "Parallelism",
    "Training",
    "lay_out",
    "micro_batch_of",
]
