"""Playing the network from instant to instant until somebody on the clock is due."""

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
def wait(wires: Any, who: int, seconds: float) -> None:
    """Let somebody be due so many seconds later."""
    time_s = wires.now_s + seconds
    if time_s > wires.now_s:
        put(wires.alarms, who, time_s)
    else:
        join(wires.due, who)


@part
def next_due(wires: Any) -> int:
    """Play on until somebody is due and return who; -1 when the clock is over or nothing can happen any more."""
    while True:
        if wires.urgent.size > 0:
            return leave(wires.urgent)
        if wires.due.size > 0:
            return leave(wires.due)
        if not _let_happen(wires):
            if wires.num_started > 0 or wires.num_left > 0:
                share(wires)
            time_s = min(first_key(wires.ends), first_key(wires.alarms), first_key(wires.arrivals))
            if wires.is_over or time_s == INFINITE:
                return NONE
            wires.now_s = max(wires.now_s, time_s)
            wires.latest_s = wires.now_s + SAME_INSTANT * abs(wires.now_s)


@part
def _let_happen(wires: Any) -> bool:
    """Let what is due now happen, of one kind: times first, then ends of messages, then starts; say whether any is."""
    if first_key(wires.alarms) <= wires.now_s:
        while first_key(wires.alarms) <= wires.now_s:
            join(wires.due, take(wires.alarms))
    elif first_key(wires.ends) <= wires.latest_s:
        while first_key(wires.ends) <= wires.latest_s:
            end(wires, take(wires.ends))
    elif first_key(wires.arrivals) <= wires.latest_s:
        while first_key(wires.arrivals) <= wires.latest_s:
            start(wires, take(wires.arrivals))
    else:
        return False
    return True
