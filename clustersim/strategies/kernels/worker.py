"""A worker: forward, backward, start the delivery of each bucket when it is ready, wait for all of them, repeat."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import wait, wait_until
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import FIRST, NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import finished_iteration
from clustersim.strategies.kernels.processes import call, have_ended, start_process


@part
def advance(state: Any, rank: int) -> int:
    """Run the next stage of a worker, whose task has the number of its rank; return the task that continues at once.

    The stage is the number of pieces of work that it has begun: forward, backward up to each bucket, and the rest of
    backward. The rest may be negative, which means that there is none. Then the worker runs its last delivery itself.
    The last stage waits for all buckets.
    """
    stage, num_buckets = tables.task(state, rank).stage, state.num_buckets
    if stage == 0:
        _begin_iteration(state, rank)
    elif stage == 1:
        tables.forward_s(state)[iteration_row(state, rank)] = state.wires.now_s
    elif stage <= num_buckets + 1:
        delivery = delivery_of(state, rank, stage - 2)
        if stage == num_buckets + 1 and _seconds(state, rank, stage) < 0:
            tables.computed_s(state)[iteration_row(state, rank)] = state.wires.now_s
            tables.task(state, rank).stage = stage + 2
            return call(state, delivery, FIRST)
        start_process(state, delivery, FIRST)
    elif stage == num_buckets + 2:
        tables.computed_s(state)[iteration_row(state, rank)] = state.wires.now_s
        return _begin_waiting(state, rank)
    elif stage == num_buckets + 3:
        return _begin_waiting(state, rank)
    else:
        return _wait_for_buckets(state, rank)
    tables.task(state, rank).stage = stage + 1
    _work(state, rank, stage)
    return NONE


@part
def waits_for(state: Any, rank: int, delivery: int) -> bool:
    """Return whether a worker waits for a delivery to end."""
    task = tables.task(state, rank)
    return task.stage == state.num_buckets + 4 and delivery_of(state, rank, task.num_ended) == delivery


@part
def iteration_row(state: Any, rank: int) -> int:
    """Return the row of a worker's iteration in the columns of the timesheet."""
    return rank * state.capacity + tables.worker(state, rank).iteration


@part
def delivery_of(state: Any, rank: int, bucket: int) -> int:
    """Return the task that delivers a worker's bucket."""
    return state.num_ranks + rank * state.num_buckets + bucket


@part
def _work(state: Any, rank: int, piece: int) -> None:
    """Do a piece of work: from now on, or from when its host, which began with the iteration, has issued its end."""
    issued_s, seconds = tables.issued_s(state)[_piece(state, rank, piece)], _seconds(state, rank, piece)
    if issued_s < 0:
        wait(state.wires, rank, seconds)
    else:
        from_s = tables.begin_s(state)[iteration_row(state, rank)] + issued_s
        wait_until(state.wires, rank, from_s + seconds, tables.worker(state, rank).gpu)


@part
def _seconds(state: Any, rank: int, piece: int) -> float:
    """Return the duration of a piece of work of a worker's iteration, after its last wait for the host."""
    return tables.seconds(state)[_piece(state, rank, piece)]


@part
def _piece(state: Any, rank: int, piece: int) -> int:
    """Return the row of a piece of work of a worker's iteration."""
    row = tables.worker(state, rank).iteration * state.num_ranks + rank
    return row * (state.num_buckets + 2) + piece


@part
def _begin_iteration(state: Any, rank: int) -> None:
    worker = tables.worker(state, rank)
    worker.iteration += 1
    state.last_begun = max(state.last_begun, worker.iteration)
    tables.begin_s(state)[iteration_row(state, rank)] = state.wires.now_s


@part
def _begin_waiting(state: Any, rank: int) -> int:
    task = tables.task(state, rank)
    task.stage, task.num_ended = state.num_buckets + 4, 0
    return _wait_for_buckets(state, rank)


@part
def _wait_for_buckets(state: Any, rank: int) -> int:
    """Wait for the deliveries that run as processes; when all have ended, begin the next iteration."""
    last = tables.task(state, delivery_of(state, rank, state.num_buckets - 1))
    if not have_ended(state, rank, delivery_of(state, rank, FIRST), state.num_buckets - 1 + last.is_process):
        return NONE
    row = iteration_row(state, rank)
    tables.exchanged_s(state)[row] = tables.end_s(state)[row] = state.wires.now_s
    finished_iteration(state, rank, tables.begin_s(state)[row])
    tables.task(state, rank).stage = 0
    return rank
