"""The kernel that Python calls: it runs a job until it has ended or its tables need more room."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine.inner.clock import next_due, post_wanted
from clustersim.network.numba_engine.jit import kernel, part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import bucket_delivery, server_request, tables, worker
from clustersim.strategies.kernels.model import time_out


@kernel
def run(states: np.ndarray, max_events: int) -> bool:
    """Run at most `max_events` events; return whether the job has ended.

    It also returns when a path is missing, or the tables have no room for more iterations or gradients. Python then
    makes room and calls it again.
    """
    state = states[0]
    post_wanted(state.wires)
    for _ in range(max_events):
        if state.wires.wanted != NONE:
            return False
        if state.last_begun + 1 >= state.num_planned:
            return False
        if state.num_logged + state.gradients_per_update > state.log_capacity:
            return False
        task_id = next_due(state.wires)
        if task_id == NONE:
            return True
        task_id = _continued_by(state, task_id)
        while task_id != NONE:
            task_id = _advance(state, task_id)
    return False


@part
def _continued_by(state: Any, number: int) -> int:
    """Return the task that an event continues, if any.

    The number of an event is that of a task that is due. It is `num_tasks` higher when the task has ended, and
    2 `num_tasks` higher when the bucket before that of a delivery is pushed.
    """
    if number < state.num_tasks:
        return number
    if number >= 2 * state.num_tasks:
        delivery = number - 2 * state.num_tasks
        return delivery if bucket_delivery.follows(state, delivery) else NONE
    task_id = number - state.num_tasks
    task = tables.task(state, task_id)
    task.has_ended = 1
    if task.kind == tables.BUCKET_DELIVERY:
        return task.rank if worker.waits_for(state, task.rank, task_id) else NONE
    delivery = state.num_ranks + task.rank * state.num_buckets + task.bucket
    return delivery if bucket_delivery.waits_for(state, delivery, task_id) else NONE


@part
def _advance(state: Any, task_id: int) -> int:
    """Run the next stage of a task; return the task that continues at once."""
    kind = tables.task(state, task_id).kind
    if kind == tables.WORKER:
        return worker.advance(state, task_id)
    if kind == tables.BUCKET_DELIVERY:
        return bucket_delivery.advance(state, task_id)
    if kind == tables.SERVER_REQUEST:
        return server_request.advance(state, task_id)
    return time_out(state, task_id)
