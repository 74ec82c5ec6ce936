"""Flows over links in simulated time: who shares which link, and how long a message takes.

The network knows a topology and a clock. It does not know GPUs, models or strategies, and a collective
reaches it as a schedule. It plays from instant to instant on its own and tells SimPy only what somebody
waits for; everything that starts or ends at one simulated time is one re-share, restricted to the flows
whose rates can change.
"""

from clustersim.network.collective import Collective, PlayTimes
from clustersim.network.environment import Environment
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
    "proportional_rates",
]
