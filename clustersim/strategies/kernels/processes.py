"""Queues of servers and copy engines, and processes that start and end: `devices.queueing` and SimPy in kernels."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables


@part
def acquire(state: Any, number: int, task_id: int) -> bool:
    """Acquire a server or copy engine, or join its queue; return whether it was free."""
    queue = tables.queue(state, number)
    if not queue.is_busy:
        queue.is_busy = 1
        return True
    if queue.first == NONE:
        queue.first = task_id
    else:
        tables.task(state, queue.last).next = task_id
    queue.last = task_id
    tables.task(state, task_id).next = NONE
    return False


@part
def release(state: Any, number: int) -> None:
    """Release a server or copy engine, and continue the first task in its queue."""
    queue = tables.queue(state, number)
    if queue.first == NONE:
        queue.is_busy = 0
    else:
        join(state.wires.due, queue.first)
        queue.first = tables.task(state, queue.first).next


@part
def start_process(state: Any, task_id: int, stage: int) -> None:
    """Start a task at a stage as a process, in parallel with its caller."""
    task = tables.task(state, task_id)
    task.stage, task.is_process, task.has_ended = stage, 1, 0
    join(state.wires.urgent, task_id)


@part
def call(state: Any, task_id: int, stage: int) -> int:
    """Run a task from a stage on in place of its caller; return the task, which continues at once."""
    task = tables.task(state, task_id)
    task.stage, task.is_process = stage, 0
    return task_id


@part
def end(state: Any, task_id: int, caller: int) -> int:
    """End a task; return the task that continues at once: the caller, if it has called the task.

    If the task is a process, its end is announced in order, by the number of the task plus `num_tasks`.
    """
    if not tables.task(state, task_id).is_process:
        return caller
    join(state.wires.due, task_id + state.num_tasks)
    return NONE


@part
def have_ended(state: Any, task_id: int, first: int, num: int) -> bool:
    """Return whether the `num` processes from number `first` on have ended; if not, wait for the next of them."""
    task = tables.task(state, task_id)
    while task.num_ended < num and tables.task(state, first + task.num_ended).has_ended:
        task.num_ended += 1
    return task.num_ended == num
