"""Messages: from their sender through latency to their links, and away from them."""

from __future__ import annotations

from typing import Any

from clustersim.network.compiled.inner import tables
from clustersim.network.compiled.inner.heap import put
from clustersim.network.compiled.inner.line import join
from clustersim.network.compiled.jit import part
from clustersim.network.compiled.tables import NONE


@part
def send(wires: Any, who: int, path: int, num_bytes: float) -> None:
    """Send the message of somebody who waits for its end; over a path that is yet to be laid, `post` it after that."""
    flow = tables.flow(wires, who)
    flow.path, flow.num_bytes, flow.left_bytes = path, num_bytes, num_bytes
    flow.bytes_per_s, flow.bottleneck, flow.mark = 0.0, NONE, 0
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
    path = tables.path(wires, flow.path)
    if path.num_links == 0 or flow.num_bytes == 0:
        join(wires.due, who)
        return
    flow.since_s = wires.now_s
    for place in range(path.num_links):
        _sit_down(wires, tables.path_links(wires)[path.first + place], (who << wires.seat_bits) + place)
    tables.started(wires)[wires.num_started] = who
    wires.num_started += 1


@part
def end(wires: Any, who: int) -> None:
    """Take a message off its links that has moved all its bytes, and tell who waits for that."""
    flow = tables.flow(wires, who)
    path = tables.path(wires, flow.path)
    for place in range(path.num_links):
        number = tables.path_links(wires)[path.first + place]
        _stand_up(wires, number, (who << wires.seat_bits) + place)
        link = tables.link(wires, number)
        link.carried_bytes += flow.num_bytes
        if link.num_flows > 0 and not link.has_left:
            link.has_left = 1
            tables.left(wires)[wires.num_left] = number
            wires.num_left += 1
    join(wires.due, who)


@part
def _sit_down(wires: Any, number: int, seat: int) -> None:
    """Let a flow be the last on a link."""
    link = tables.link(wires, number)
    tables.seat(wires, seat).before, tables.seat(wires, seat).next = link.last, NONE
    if link.last == NONE:
        link.first = seat
    else:
        tables.seat(wires, link.last).next = seat
    link.last = seat
    link.num_flows += 1


@part
def _stand_up(wires: Any, number: int, seat: int) -> None:
    """Let a flow leave a link."""
    link, row = tables.link(wires, number), tables.seat(wires, seat)
    if row.before == NONE:
        link.first = row.next
    else:
        tables.seat(wires, row.before).next = row.next
    if row.next == NONE:
        link.last = row.before
    else:
        tables.seat(wires, row.next).before = row.before
    link.num_flows -= 1
