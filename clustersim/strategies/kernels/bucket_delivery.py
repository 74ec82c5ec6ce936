"""A delivery: it takes a bucket to all servers after the one ahead has been pushed, and brings parameters back."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner.clock import join, send
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import read_gradient
from clustersim.strategies.kernels.processes import are_back, begin, begin_here, come, ended, go
from clustersim.strategies.kernels.server_request import PULL, PUSH
from clustersim.strategies.kernels.worker import note_of

_READY, _COPY_OUT, _COPIED_OUT, _FOLLOW, _ENTER, _PUSHED, _PULLED, _COPY_IN, _COPIED_IN, _BACK = range(10)


@part
def go_on(world: Any, who: int) -> int:
    """Let a delivery go on with the next stage; return who goes on at once."""
    task = tables.task(world, who)
    stage, rank, note = task.stage, task.rank, _note_of(world, who)
    task.stage = stage + 1
    if stage == _READY:
        tables.ready_s(world)[note] = world.wires.now_s
        if world.is_staged:
            return who if come(world, world.num_servers + rank, who) else NONE
        task.stage = _FOLLOW
    elif stage == _COPY_OUT:
        send(world.wires, who, tables.worker(world, rank).copy_out, tables.bucket(world, task.bucket).out_bytes)
        return NONE
    elif stage == _COPIED_OUT:
        go(world, world.num_servers + rank)
    elif stage == _FOLLOW:
        return who if task.bucket == 0 or task.may_follow else NONE
    elif stage == _ENTER:
        tables.enter_s(world)[note] = world.wires.now_s
        task.may_follow = 0
        read_gradient(world, rank)
        return _begin_errands(world, who, PUSH)
    else:
        return _come_back(world, who, stage, note)
    return who


@part
def follows(world: Any, who: int) -> bool:
    """Let a delivery go whose bucket follows one that has been pushed; return whether it waits for that."""
    task = tables.task(world, who)
    task.may_follow = 1
    return task.stage == _ENTER


@part
def waits_for(world: Any, who: int, errand: int) -> bool:
    """Return whether a delivery waits for an errand."""
    task = tables.task(world, who)
    is_out = task.stage == _PUSHED or task.stage == _PULLED
    return is_out and first_errand(world, who) + task.num_back == errand


@part
def first_errand(world: Any, who: int) -> int:
    """Return who runs the errand of a delivery to the first server."""
    num_before = world.num_ranks * (world.num_buckets + 1)
    return num_before + (who - world.num_ranks) * world.num_servers


@part
def _come_back(world: Any, who: int, stage: int, note: int) -> int:
    """Let a delivery go on that is at the servers or comes from there."""
    task, now_s = tables.task(world, who), world.wires.now_s
    num_errands, engine = world.num_servers, world.num_servers + world.num_ranks + task.rank
    if stage <= _PULLED and num_errands > 1 and not are_back(world, who, first_errand(world, who), num_errands):
        task.stage = stage
        return NONE
    if stage == _PUSHED:
        if task.bucket < world.num_buckets - 1:
            join(world.wires.due, who + 1 + 2 * world.num_tasks)
        return _begin_errands(world, who, PULL)
    if stage == _PULLED:
        tables.left_s(world)[note] = now_s
        if world.is_staged:
            return who if come(world, engine, who) else NONE
        task.stage = _BACK
    elif stage == _COPY_IN:
        send(world.wires, who, tables.worker(world, task.rank).copy_in, tables.bucket(world, task.bucket).in_bytes)
        return NONE
    elif stage == _COPIED_IN:
        go(world, engine)
    else:
        tables.back_s(world)[note] = now_s
        return ended(world, who, task.rank)
    return who


@part
def _begin_errands(world: Any, who: int, stage: int) -> int:
    """Let errands set off to all servers side by side, or the only one at once; return who goes on at once."""
    first = first_errand(world, who)
    if world.num_servers == 1:
        return begin_here(world, first, stage)
    tables.task(world, who).num_back = 0
    for errand in range(first, first + world.num_servers):
        begin(world, errand, stage)
    return NONE


@part
def _note_of(world: Any, who: int) -> int:
    """Return where a delivery is noted in columns of the timesheet."""
    task = tables.task(world, who)
    return note_of(world, task.rank) * world.num_buckets + task.bucket
