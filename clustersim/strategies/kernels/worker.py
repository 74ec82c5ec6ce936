"""A worker: forward, backward, hand over each bucket as it is ready, have all of them back, repeat."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import wait
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import FIRST, NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import finished_iteration
from clustersim.strategies.kernels.processes import are_back, begin, begin_here


@part
def go_on(world: Any, who: int) -> int:
    """Let a worker go on; return who goes on at once.

    Its stage is how many pieces of work it has begun: forward, backward to each bucket, and the rest, which may be
    negative: there is none. Beyond those it takes its last bucket to the servers itself, or waits at home.
    """
    stage, num_buckets = tables.task(world, who).stage, world.num_buckets
    if stage == 0:
        _begin_iteration(world, who)
    elif stage == 1:
        tables.forward_s(world)[note_of(world, who)] = world.wires.now_s
    elif stage <= num_buckets + 1:
        delivery = delivery_of(world, who, stage - 2)
        if stage == num_buckets + 1 and _seconds(world, who, stage) < 0:
            tables.computed_s(world)[note_of(world, who)] = world.wires.now_s
            tables.task(world, who).stage = stage + 2
            return begin_here(world, delivery, FIRST)
        begin(world, delivery, FIRST)
    elif stage == num_buckets + 2:
        tables.computed_s(world)[note_of(world, who)] = world.wires.now_s
        return _go_home(world, who)
    elif stage == num_buckets + 3:
        return _go_home(world, who)
    else:
        return _be_home(world, who)
    tables.task(world, who).stage = stage + 1
    wait(world.wires, who, _seconds(world, who, stage))
    return NONE


@part
def waits_for(world: Any, who: int, delivery: int) -> bool:
    """Return whether a worker waits at home for a delivery."""
    task = tables.task(world, who)
    return task.stage == world.num_buckets + 4 and delivery_of(world, who, task.num_back) == delivery


@part
def note_of(world: Any, rank: int) -> int:
    """Return where a worker's iteration is noted in columns of the timesheet."""
    return rank * world.room + tables.worker(world, rank).iteration


@part
def delivery_of(world: Any, rank: int, bucket: int) -> int:
    """Return who takes a worker's bucket to the servers."""
    return world.num_ranks + rank * world.num_buckets + bucket


@part
def _seconds(world: Any, rank: int, piece: int) -> float:
    """Return how long a piece of work of a worker's iteration takes."""
    row = tables.worker(world, rank).iteration * world.num_ranks + rank
    return tables.seconds(world)[row * (world.num_buckets + 2) + piece]


@part
def _begin_iteration(world: Any, rank: int) -> None:
    worker = tables.worker(world, rank)
    worker.iteration += 1
    world.furthest = max(world.furthest, worker.iteration)
    tables.begin_s(world)[note_of(world, rank)] = world.wires.now_s


@part
def _go_home(world: Any, who: int) -> int:
    task = tables.task(world, who)
    task.stage, task.num_back = world.num_buckets + 4, 0
    return _be_home(world, who)


@part
def _be_home(world: Any, who: int) -> int:
    """Wait for the buckets that are delivered by others; when all are back the next iteration begins."""
    last = tables.task(world, delivery_of(world, who, world.num_buckets - 1))
    if not are_back(world, who, delivery_of(world, who, FIRST), world.num_buckets - 1 + last.is_process):
        return NONE
    note = note_of(world, who)
    tables.exchanged_s(world)[note] = tables.end_s(world)[note] = world.wires.now_s
    finished_iteration(world, who, tables.begin_s(world)[note])
    tables.task(world, who).stage = 0
    return who
