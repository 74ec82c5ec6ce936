"""Gradients, versions of the model, and the window of updates: what servers and `Window` keep, in kernels."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join, wait
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables


@part
def version(world: Any) -> int:
    """Return how many updates of the whole model there have been."""
    return world.num_applied // world.per_update


@part
def read_gradient(world: Any, rank: int) -> None:
    """Let a worker's iteration have a gradient of its own, of the version that the worker has read."""
    worker = tables.worker(world, rank)
    if worker.gradient_iteration == worker.iteration:
        return
    world.num_free -= 1
    worker.gradient = tables.free(world)[world.num_free]
    worker.gradient_iteration = worker.iteration
    gradient = tables.gradient(world, worker.gradient)
    gradient.rank, gradient.version_read = rank, worker.version
    gradient.parts_left = world.num_buckets * world.num_servers


@part
def settle(world: Any, number: int) -> None:
    """Note that a part of a gradient has been applied; with its last part the gradient goes into the log."""
    gradient = tables.gradient(world, number)
    gradient.parts_left -= 1
    if gradient.parts_left > 0:
        return
    before = version(world)
    world.num_applied += 1
    row = tables.logged(world, world.num_logged)
    row.time_s, row.worker = world.wires.now_s, gradient.rank
    row.version_read, row.version_written = gradient.version_read, before + 1
    world.num_logged += 1
    tables.free(world)[world.num_free] = number
    world.num_free += 1
    if version(world) > before:
        _updated(world)


@part
def _updated(world: Any) -> None:
    """Note in the window that the model has a new version."""
    now_s = world.wires.now_s
    world.num_updates += 1
    if world.num_updates == world.num_before:
        world.start_s, world.first_row = now_s, world.num_logged
    is_enough = world.num_updates >= world.num_before + world.num_counted
    if is_enough and world.start_s < now_s < world.end_of_window_s:
        world.end_of_window_s, world.last_row = now_s, world.num_logged
        join(world.wires.urgent, world.num_tasks - 1)


@part
def finished_iteration(world: Any, rank: int, begin_s: float) -> None:
    """Note in the window that a worker has ended an iteration; after that of the last one the clock stops."""
    worker, now_s = tables.worker(world, rank), world.wires.now_s
    world.longest_s = max(world.longest_s, now_s - begin_s)
    if now_s >= world.end_of_window_s and worker.is_counted:
        worker.is_counted = 0
        world.num_unfinished -= 1
        if world.num_unfinished == 0:
            world.wires.is_over = 1


@part
def lose_patience(world: Any, who: int) -> int:
    """Wait for workers under way when the window has closed, but not for ever; nobody goes on at once."""
    task = tables.task(world, who)
    if task.stage == 0:
        task.stage = 1
        wait(world.wires, who, max(world.end_of_window_s - world.start_s, world.patience * world.longest_s))
    else:
        world.wires.is_over = 1
    return NONE
