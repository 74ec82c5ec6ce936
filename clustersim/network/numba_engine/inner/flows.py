"""Messages: from their sender through latency to their links, and off them."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import put
from clustersim.network.numba_engine.inner.line import join
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.link_lists import join_links, leave_links
from clustersim.network.numba_engine.tables import NONE


@part
def send(network: Any, process: int, path: int, num_bytes: float) -> None:
    """Send the message of a process, which waits for its end; over a path without links yet, `post_wanted` sends it."""
    flow = tables.flow(network, process)
    flow.path, flow.num_bytes, flow.left_bytes, flow.weight = path, num_bytes, num_bytes, 1.0
    flow.bytes_per_s, flow.level, flow.bottleneck, flow.mark = 0.0, 0.0, NONE, 0
    if tables.path(network, path).num_links == NONE:
        network.wanted, network.wanted_by = path, process
    else:
        _post(network, process)


@part
def post_wanted(network: Any) -> None:
    """Send the message whose path has got its links, if there is one."""
    if network.wanted != NONE:
        network.wanted = NONE
        _post(network, network.wanted_by)


@part
def _post(network: Any, process: int) -> None:
    path = tables.path(network, tables.flow(network, process).path)
    put(network.arrivals, process, network.now_s + path.latency_s)


@part
def start(network: Any, process: int) -> None:
    """Put a message on its links; over no link, or with no bytes, it has ended."""
    flow = tables.flow(network, process)
    if tables.path(network, flow.path).num_links == 0 or flow.num_bytes == 0:
        join(network.due, process)
    else:
        join_links(network, process)


@part
def end(network: Any, process: int) -> None:
    """Take a message off its links that has moved all its bytes; its process is due."""
    leave_links(network, process, tables.flow(network, process).num_bytes)
    join(network.due, process)
