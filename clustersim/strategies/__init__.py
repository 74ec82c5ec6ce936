"""Parallelism strategies: what the workers of a job send each other, and when they may continue.

A strategy is a model of the key `strategy` of a scenario, and starts the processes of its workers on the simulated
clock. `Strategy` explains how to write a new one. This package uses devices and the network. It depends neither on
scenario files nor on reports.
"""

from clustersim.registry import Registry
from clustersim.spec import checked_spec
from clustersim.strategies.all_reduce import AllReduce
from clustersim.strategies.asynchronous import Async
from clustersim.strategies.backup import Backup
from clustersim.strategies.bounded_staleness import BoundedStaleness
from clustersim.strategies.data_parallel import DataParallel
from clustersim.strategies.delayed import Delayed
from clustersim.strategies.gossip import Gossip
from clustersim.strategies.hierarchical import Hierarchical
from clustersim.strategies.local import Local
from clustersim.strategies.server import Server
from clustersim.strategies.servers import Servers
from clustersim.strategies.softsync import Softsync
from clustersim.strategies.strategy import Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy",
    {
        "all-reduce": AllReduce,
        "async": Async,
        "backup": Backup,
        "bounded-staleness": BoundedStaleness,
        "data-parallel": DataParallel,
        "delayed": Delayed,
        "gossip": Gossip,
        "hierarchical": Hierarchical,
        "local": Local,
        "server": Server,
        "softsync": Softsync,
    },
    group="clustersim.strategies",
    check=checked_spec(Strategy),
)


def strategies_with(flag: str) -> list[str]:
    """Return the names of the strategies whose class variable `flag` is True.

    >>> strategies_with("all_reduces_gradients")
    ['all-reduce']
    """
    return [name for name, strategy in STRATEGIES.items() if getattr(strategy, flag)]


__all__ = ["STRATEGIES", "AllReduce", "Async", "DataParallel", "Server", "Servers", "Strategy", "strategies_with"]
