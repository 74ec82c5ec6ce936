"""Messages: from their sender through latency to their links, and away from them."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import put
from clustersim.network.numba_engine.inner.line import join
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.seats import leave_seats, take_seats
from clustersim.network.numba_engine.tables import NONE


@part
def send(wires: Any, who: int, path: int, num_bytes: float) -> None:
    """Send the message of somebody who waits for its end; over a path that is yet to be laid, `post` it after that."""
    flow = tables.flow(wires, who)
    flow.path, flow.num_bytes, flow.left_bytes, flow.weight = path, num_bytes, num_bytes, 1.0
    flow.bytes_per_s, flow.level, flow.bottleneck, flow.mark = 0.0, 0.0, NONE, 0
    if tables.path(wires, path).num_links == NONE:
        wires.wanted, wires.wanted_by = path, who
    else:
        _post(wires, who)


@part
def post_wanted(wires: Any) -> None:
    """Send the message whose path has been laid, if any has."""
    if wires.wanted != NONE:
        wires.wanted = NONE
        _post(wires, wires.wanted_by)


@part
def _post(wires: Any, who: int) -> None:
    path = tables.path(wires, tables.flow(wires, who).path)
    put(wires.arrivals, who, wires.now_s + path.latency_s)


@part
def start(wires: Any, who: int) -> None:
    """Put a message on its links; over no link, or with no bytes, it has ended."""
    flow = tables.flow(wires, who)
    if tables.path(wires, flow.path).num_links == 0 or flow.num_bytes == 0:
        join(wires.due, who)
    else:
        take_seats(wires, who)


@part
def end(wires: Any, who: int) -> None:
    """Take a message off its links that has moved all its bytes, and tell who waits for that."""
    leave_seats(wires, who, tables.flow(wires, who).num_bytes)
    join(wires.due, who)
