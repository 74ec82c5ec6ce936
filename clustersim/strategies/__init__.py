"""How gradients meet: what the workers of a job send each other, and when they may go on.

A strategy is what the user writes under `strategy` and knows how to put its processes on the clock. It
knows devices and the network, and neither scenario files nor how results are told.
"""

from clustersim.registry import Registry
from clustersim.strategies.all_reduce import AllReduce
from clustersim.strategies.job import Job
from clustersim.strategies.server import Server, Servers
from clustersim.strategies.strategy import Exchange, Strategy

STRATEGIES: Registry[type[Strategy]] = Registry("strategy", {"all-reduce": AllReduce, "server": Server})

__all__ = ["STRATEGIES", "AllReduce", "Exchange", "Job", "Server", "Servers", "Strategy"]
