"""Flows over links in simulated time: who shares which link, and how long a message takes.

The network knows a topology and a clock. It does not know GPUs, models or strategies, and a collective
reaches it as a schedule. One re-share per instant: everything that starts or ends at one simulated time
is one recomputation, in arrays, restricted to the flows that are affected.
"""

from clustersim.network.collective import Collective, PlayTimes
from clustersim.network.fair_share import SHARING, max_min_rates
from clustersim.network.network import Network, TransferTimes

__all__ = ["SHARING", "Collective", "Network", "PlayTimes", "TransferTimes", "max_min_rates"]
