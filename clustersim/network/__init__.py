"""Flows over links in simulated time: which flows share a link, and how long a message takes.

The network has a topology and a clock. It has no GPUs, models or strategies; a collective reaches it as a
schedule. It simulates from instant to instant by itself. SimPy sees only the events that a process waits for.
Everything that starts or ends at one simulated time is one re-share, restricted to the flows whose rates can change.
"""

from clustersim.network.collective import Collective, PlayTimes
from clustersim.network.environment import Environment, moment
from clustersim.network.network import Network
from clustersim.network.progress import Counts, FlowRate, Stuck
from clustersim.network.python_engine.fair_share import SHARING, max_min_rates
from clustersim.network.python_engine.proportional import proportional_rates
from clustersim.network.transfer import TransferTimes

__all__ = [
    "SHARING",
    "Collective",
    "Counts",
    "Environment",
    "FlowRate",
    "Network",
    "PlayTimes",
    "Stuck",
    "TransferTimes",
    "max_min_rates",
    "moment",
    "proportional_rates",
]
