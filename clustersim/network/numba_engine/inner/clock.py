"""Simulates the network from instant to instant until a process on the clock is due."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.heap import first_key, put, take
from clustersim.network.numba_engine.inner.flows import end, start
from clustersim.network.numba_engine.inner.line import join, leave
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
