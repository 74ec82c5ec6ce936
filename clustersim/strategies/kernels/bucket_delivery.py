"""A bucket delivery: it pushes a bucket to all servers after the previous bucket is pushed, and pulls parameters."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join, send
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import read_gradient
from clustersim.strategies.kernels.processes import acquire, call, end, have_ended, release, start_process
from clustersim.strategies.kernels.server_request import PULL, PUSH
from clustersim.strategies.kernels.worker import iteration_row

_READY, _COPY_OUT, _COPIED_OUT, _FOLLOW, _ENTER, _PUSHED, _PULLED, _COPY_IN, _COPIED_IN, _BACK = range(10)


@part
def advance(state: Any, task_id: int) -> int:
    """Run the next stage of a delivery; return the task that continues at once."""
    task = tables.task(state, task_id)
    stage, rank, row = task.stage, task.rank, _bucket_row(state, task_id)
    task.stage = stage + 1
    if stage == _READY:
        tables.ready_s(state)[row] = state.wires.now_s
        if state.is_staged:
            return task_id if acquire(state, state.num_servers + rank, task_id) else NONE
        task.stage = _FOLLOW
    elif stage == _COPY_OUT:
        send(state.wires, task_id, tables.worker(state, rank).copy_out, tables.bucket(state, task.bucket).out_bytes)
        return NONE
    elif stage == _COPIED_OUT:
        release(state, state.num_servers + rank)
    elif stage == _FOLLOW:
        return task_id if task.bucket == 0 or task.is_previous_pushed else NONE
    elif stage == _ENTER:
        tables.enter_s(state)[row] = state.wires.now_s
        task.is_previous_pushed = 0
        read_gradient(state, rank)
        return _start_requests(state, task_id, PUSH)
    else:
        return _advance_after_push(state, task_id, stage, row)
    return task_id


@part
def follows(state: Any, task_id: int) -> bool:
    """Note that the previous bucket of a delivery is pushed; return whether the delivery waits for that."""
    task = tables.task(state, task_id)
    task.is_previous_pushed = 1
    return task.stage == _ENTER


@part
def waits_for(state: Any, task_id: int, request: int) -> bool:
    """Return whether a delivery waits for a server request."""
    task = tables.task(state, task_id)
    is_waiting = task.stage == _PUSHED or task.stage == _PULLED
    return is_waiting and first_request(state, task_id) + task.num_ended == request


@part
def first_request(state: Any, task_id: int) -> int:
    """Return the task of a delivery's request to the first server."""
    num_before = state.num_ranks * (state.num_buckets + 1)
    return num_before + (task_id - state.num_ranks) * state.num_servers


@part
def _advance_after_push(state: Any, task_id: int, stage: int, row: int) -> int:
    """Run the next stage of a delivery whose push has been started."""
    task, now_s = tables.task(state, task_id), state.wires.now_s
    num_requests, engine = state.num_servers, state.num_servers + state.num_ranks + task.rank
    is_waiting = stage <= _PULLED and num_requests > 1
    if is_waiting and not have_ended(state, task_id, first_request(state, task_id), num_requests):
        task.stage = stage
        return NONE
    if stage == _PUSHED:
        if task.bucket < state.num_buckets - 1:
            join(state.wires.due, task_id + 1 + 2 * state.num_tasks)
        return _start_requests(state, task_id, PULL)
    if stage == _PULLED:
        tables.left_s(state)[row] = now_s
        if state.is_staged:
            return task_id if acquire(state, engine, task_id) else NONE
        task.stage = _BACK
    elif stage == _COPY_IN:
        send(state.wires, task_id, tables.worker(state, task.rank).copy_in, tables.bucket(state, task.bucket).in_bytes)
        return NONE
    elif stage == _COPIED_IN:
        release(state, engine)
    else:
        tables.back_s(state)[row] = now_s
        return end(state, task_id, task.rank)
    return task_id


@part
def _start_requests(state: Any, task_id: int, stage: int) -> int:
    """Start requests to all servers in parallel, or call the only one; return the task that continues at once."""
    first = first_request(state, task_id)
    if state.num_servers == 1:
        return call(state, first, stage)
    tables.task(state, task_id).num_ended = 0
    for request in range(first, first + state.num_servers):
        start_process(state, request, stage)
    return NONE


@part
def _bucket_row(state: Any, task_id: int) -> int:
    """Return the row of a delivery in the columns of the timesheet that have one row for each bucket."""
    task = tables.task(state, task_id)
    return iteration_row(state, task.rank) * state.num_buckets + task.bucket
