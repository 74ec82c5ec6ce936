"""The clock of processes in kernels: it simulates from instant to instant until a process is due."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.flows import join_links, leave_links
from clustersim.network.numba_engine.heap import first_key, put, put_in_order, take
from clustersim.network.numba_engine.inner.tables import places
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.max_min import share
from clustersim.network.numba_engine.tables import INFINITE, NONE
from clustersim.network.progress import SAME_INSTANT


@part
def wait(network: Any, process: int, seconds: float) -> None:
    """Let a process be due so many seconds later."""
    time_s = network.now_s + seconds
    if time_s > network.now_s:
        put(network.alarms, process, time_s)
    else:
        join(network.due, process)


@part
def wait_until(network: Any, process: int, time_s: float, order: int) -> None:
    """Let a process be due at exactly a time, as `network.environment.moment` does."""
    if time_s > network.now_s:
        put_in_order(network.alarms, process, time_s, order)
    else:
        join(network.due, process)


@part
def next_due(network: Any) -> int:
    """Simulate until a process is due and return it; -1 when the clock is over or nothing can happen any more."""
    while True:
        if network.urgent.size > 0:
            return leave(network.urgent)
        if network.due.size > 0:
            return leave(network.due)
        if not _let_happen(network):
            if network.num_started > 0 or network.num_left > 0:
                share(network)
            time_s = min(first_key(network.ends), first_key(network.alarms), first_key(network.arrivals))
            if network.is_over or time_s == INFINITE:
                return NONE
            network.now_s = max(network.now_s, time_s)
            network.latest_s = network.now_s + SAME_INSTANT * abs(network.now_s)


@part
def _let_happen(network: Any) -> bool:
    """Handle what is due now, of one kind: times, else ends of messages, else starts; return whether any was due."""
    if first_key(network.alarms) <= network.now_s:
        while first_key(network.alarms) <= network.now_s:
            join(network.due, take(network.alarms))
    elif first_key(network.ends) <= network.latest_s:
        while first_key(network.ends) <= network.latest_s:
            end(network, take(network.ends))
    elif first_key(network.arrivals) <= network.latest_s:
        while first_key(network.arrivals) <= network.latest_s:
            start(network, take(network.arrivals))
    else:
        return False
    return True


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


@part
def join(line: Any, process: int) -> None:
    """Add a process at the end; there is room for all that can be in it."""
    places(line)[(line.first + line.size) & line.mask] = process
    line.size += 1


@part
def leave(line: Any) -> int:
    """Remove the first process and return it; there must be one."""
    process = places(line)[line.first & line.mask]
    line.first += 1
    line.size -= 1
    return process
