"""How gradients meet: what the workers of a job send each other, and when they may go on.

A strategy is what the user writes under `strategy` and knows how to put its processes on the clock. It
knows devices and the network, and neither scenario files nor how results are told.
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

__all__ = ["STRATEGIES", "AllReduce", "Async", "DataParallel", "Server", "Servers", "Strategy"]
