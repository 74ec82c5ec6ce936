"""A server request: it pushes a part of a bucket to one server, where the part is served in order, or pulls one."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from clustersim.network.numba_engine.inner.clock import send
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import finish_part, version
from clustersim.strategies.kernels.processes import acquire, end, release

PUSH = cast(int, np.int64(0))
_ARRIVED, _ACQUIRED, _ADDED, _UPDATED, _SERVED = range(1, 6)
PULL = cast(int, np.int64(6))


@part
def advance(state: Any, task_id: int) -> int:
    """Run the next stage of a server request; return the task that continues at once."""
    task = tables.task(state, task_id)
    stage, server, path = task.stage, task.server, task.rank * state.num_servers + task.server
    shard = tables.shard(state, task.bucket * state.num_servers + server)
    task.stage = stage + 1
    if stage == PUSH:
        send(state.wires, task_id, tables.pushes(state)[path], shard.push_bytes)
        return NONE
    if stage == _ARRIVED:
        return task_id if acquire(state, server, task_id) else NONE
    if stage == _ACQUIRED:
        if state.adds:
            send(state.wires, task_id, tables.adding(state)[server], shard.added_bytes)
        return NONE if state.adds else task_id
    if stage == _ADDED:
        is_enough = _is_enough(state, task_id)
        if is_enough:
            send(state.wires, task_id, tables.adding(state)[server], shard.update_bytes)
        task.stage = _UPDATED if is_enough else _SERVED
        return NONE if is_enough else task_id
    if stage == _UPDATED:
        _update(state, task_id)
        return task_id
    if stage == _SERVED:
        tables.worker(state, task.rank).version = version(state)
        release(state, server)
        return end(state, task_id, _delivery_of(state, task_id))
    if stage == PULL:
        send(state.wires, task_id, tables.pulls(state)[path], shard.pull_bytes)
        return NONE
    return end(state, task_id, _delivery_of(state, task_id))


@part
def _is_enough(state: Any, task_id: int) -> bool:
    """Add a part to the pending ones; return whether there are enough for an update."""
    task = tables.task(state, task_id)
    number = task.bucket * state.num_servers + task.server
    shard = tables.shard(state, number)
    row = number * state.gradients_per_update + shard.num_pending
    tables.pending(state)[row] = tables.worker(state, task.rank).gradient
    shard.num_pending += 1
    return shard.num_pending == state.gradients_per_update


@part
def _update(state: Any, task_id: int) -> None:
    """Apply the pending parts."""
    task = tables.task(state, task_id)
    number = task.bucket * state.num_servers + task.server
    tables.shard(state, number).num_pending = 0
    for index in range(number * state.gradients_per_update, (number + 1) * state.gradients_per_update):
        finish_part(state, tables.pending(state)[index])


@part
def _delivery_of(state: Any, task_id: int) -> int:
    """Return the bucket delivery to which a request belongs."""
    task = tables.task(state, task_id)
    return state.num_ranks + task.rank * state.num_buckets + task.bucket
