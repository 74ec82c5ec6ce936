"""All hosts on one switch."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.topology.fabric import Fabric
from clustersim.topology.network_spec import MixedNetworkSpec
from clustersim.topology.routes import Routes
from clustersim.topology.wire import LinkName, wire


class StarFabric(Fabric):
    """One switch; every route is up and down."""

    is_symmetric = True

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        return []

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        return Routes.empty(len(src))

    def hops(self, src: int) -> np.ndarray:
        return np.zeros(1, dtype=np.int64)


class Star(MixedNetworkSpec):
    """All hosts on one non-blocking switch: two hosts are two links apart."""

    kind: Literal["star"] = "star"
    link: LinkName = Field(description="every link, each way: a link sheet's name, or a rate such as '100 Gbit/s'")

    def fabric(self, port_host: np.ndarray) -> Fabric:
        return StarFabric(
            ["switch"], "switch", np.zeros(len(port_host), dtype=np.int64), wire(self.link, "access", self.hop)
        )
