"""Communicator: which algorithm runs a collective on given GPUs, its schedule, its extra ranks and its costs on a GPU.

Strategies, layouts, the planner and `clustersim collective` call this package. It knows a topology and a transport's
library. It has no clock: `clustersim.network` says how long a schedule takes.
"""

from clustersim.communicator.algorithm import algorithm_name, as_seen, check_algorithm, schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.communicator.sm_share import sm_share

__all__ = [
    "algorithm_name",
    "as_seen",
    "check_algorithm",
    "extra_ranks",
    "pauses_s",
    "schedule_collective",
    "sm_share",
]
