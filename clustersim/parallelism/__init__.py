"""How a model is divided over GPUs (tensor, context, expert, data and pipeline parallelism), and programs of ranks.

A layout is numbers and lists: there is no clock and no network in this package.
"""

from clustersim.parallelism.grid import AXES, COLLECTIVE_AXES, REPLICAS, REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.parallelism.layout import ModelLayout, TrainingSetup, lay_out
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
    "TrainingSetup",
    "lay_out",
    "micro_batch_of",
]
