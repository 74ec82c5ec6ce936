"""Gradients, versions of the model, and the window of updates: `ServedModel` and `Window` in kernels."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join, wait
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables


@part
def version(state: Any) -> int:
    """Return the number of updates of the whole model so far."""
    return state.num_applied // state.gradients_per_update


@part
def read_gradient(state: Any, rank: int) -> None:
    """Create the gradient of a worker's iteration, with the version that the worker has read; the first bucket does."""
    worker = tables.worker(state, rank)
    if worker.gradient_iteration == worker.iteration:
        return
    state.num_free -= 1
    worker.gradient = tables.free(state)[state.num_free]
    worker.gradient_iteration = worker.iteration
    gradient = tables.gradient(state, worker.gradient)
    gradient.rank, gradient.version_read = rank, worker.version
    gradient.parts_left = state.num_buckets * state.num_servers


@part
def finish_part(state: Any, number: int) -> None:
    """Note that a part of a gradient is applied; after its last part, add the gradient to the log."""
    gradient = tables.gradient(state, number)
    gradient.parts_left -= 1
    if gradient.parts_left > 0:
        return
    before = version(state)
    state.num_applied += 1
    row = tables.logged(state, state.num_logged)
    row.time_s, row.worker = state.wires.now_s, gradient.rank
    row.version_read, row.version_written = gradient.version_read, before + 1
    state.num_logged += 1
    tables.free(state)[state.num_free] = number
    state.num_free += 1
    if version(state) > before:
        _updated(state)


@part
def _updated(state: Any) -> None:
    """Note in the window that the model has a new version; close the window after the last counted update."""
    now_s = state.wires.now_s
    state.num_updates += 1
    if state.num_updates == state.num_before:
        state.start_s, state.first_row = now_s, state.num_logged
    is_enough = state.num_updates >= state.num_before + state.num_counted
    if is_enough and state.start_s < now_s < state.end_of_window_s:
        state.end_of_window_s, state.last_row = now_s, state.num_logged
        join(state.wires.urgent, state.num_tasks - 1)


@part
def finished_iteration(state: Any, rank: int, begin_s: float) -> None:
    """Note in the window that a worker has ended an iteration; stop the clock after the last one that counts."""
    worker, now_s = tables.worker(state, rank), state.wires.now_s
    state.longest_s = max(state.longest_s, now_s - begin_s)
    if now_s >= state.end_of_window_s and worker.is_counted:
        worker.is_counted = 0
        state.num_unfinished -= 1
        if state.num_unfinished == 0:
            state.wires.is_over = 1


@part
def time_out(state: Any, task_id: int) -> int:
    """Run the timeout after the window closes: stop the clock even if some workers have not ended their iteration."""
    task = tables.task(state, task_id)
    if task.stage == 0:
        task.stage = 1
        wait(
            state.wires, task_id, max(state.end_of_window_s - state.start_s, state.timeout_iterations * state.longest_s)
        )
    else:
        state.wires.is_over = 1
    return NONE
