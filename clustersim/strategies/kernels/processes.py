"""Queues before what serves one at a time, and processes that begin and end: `devices.queue` and SimPy in kernels."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables


@part
def come(world: Any, number: int, who: int) -> bool:
    """Join a queue; return whether one's turn has come."""
    queue = tables.queue(world, number)
    if not queue.is_busy:
        queue.is_busy = 1
        return True
    if queue.first == NONE:
        queue.first = who
    else:
        tables.task(world, queue.last).behind = who
    queue.last = who
    tables.task(world, who).behind = NONE
    return False


@part
def go(world: Any, number: int) -> None:
    """Leave after one's turn, and let the next one come."""
    queue = tables.queue(world, number)
    if queue.first == NONE:
        queue.is_busy = 0
    else:
        join(world.wires.due, queue.first)
        queue.first = tables.task(world, queue.first).behind


@part
def begin(world: Any, who: int, stage: int) -> None:
    """Let somebody go on from a stage beside whoever begins it."""
    task = tables.task(world, who)
    task.stage, task.is_process, task.is_over = stage, 1, 0
    join(world.wires.urgent, who)


@part
def begin_here(world: Any, who: int, stage: int) -> int:
    """Let somebody go on from a stage in the place of whoever begins it; return who that is."""
    task = tables.task(world, who)
    task.stage, task.is_process = stage, 0
    return who


@part
def ended(world: Any, who: int, begun_by: int) -> int:
    """Return who goes on at once after somebody has ended: who has begun it, where it was in that one's place.

    Else that is told in its turn, as of who is `num_tasks` higher.
    """
    if not tables.task(world, who).is_process:
        return begun_by
    join(world.wires.due, who + world.num_tasks)
    return NONE


@part
def are_back(world: Any, who: int, first: int, num: int) -> bool:
    """Return whether so many processes with numbers from `first` on have ended; else the next of them is waited for."""
    task = tables.task(world, who)
    while task.num_back < num and tables.task(world, first + task.num_back).is_over:
        task.num_back += 1
    return task.num_back == num
