"""An errand: it pushes a part of a bucket to one server and has it served there in its turn, or it pulls one back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from clustersim.network.numba_engine.inner.clock import send
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import tables
from clustersim.strategies.kernels.model import settle, version
from clustersim.strategies.kernels.processes import come, ended, go

PUSH = cast(int, np.int64(0))
_ARRIVED, _TURN, _ADDED, _UPDATED, _SERVED = range(1, 6)
PULL = cast(int, np.int64(6))


@part
def go_on(world: Any, who: int) -> int:
    """Let an errand go on with the next stage; return who goes on at once."""
    task = tables.task(world, who)
    stage, server, way = task.stage, task.server, task.rank * world.num_servers + task.server
    shard = tables.shard(world, task.bucket * world.num_servers + server)
    task.stage = stage + 1
    if stage == PUSH:
        send(world.wires, who, tables.pushes(world)[way], shard.push_bytes)
        return NONE
    if stage == _ARRIVED:
        return who if come(world, server, who) else NONE
    if stage == _TURN:
        if world.adds:
            send(world.wires, who, tables.adding(world)[server], shard.added_bytes)
        return NONE if world.adds else who
    if stage == _ADDED:
        is_enough = _is_enough(world, who)
        if is_enough:
            send(world.wires, who, tables.adding(world)[server], shard.update_bytes)
        task.stage = _UPDATED if is_enough else _SERVED
        return NONE if is_enough else who
    if stage == _UPDATED:
        _update(world, who)
        return who
    if stage == _SERVED:
        tables.worker(world, task.rank).version = version(world)
        go(world, server)
        return ended(world, who, _begun_by(world, who))
    if stage == PULL:
        send(world.wires, who, tables.pulls(world)[way], shard.pull_bytes)
        return NONE
    return ended(world, who, _begun_by(world, who))


@part
def _is_enough(world: Any, who: int) -> bool:
    """Let a part be pending; return whether there are enough for an update."""
    task = tables.task(world, who)
    number = task.bucket * world.num_servers + task.server
    shard = tables.shard(world, number)
    tables.pending(world)[number * world.per_update + shard.num_pending] = tables.worker(world, task.rank).gradient
    shard.num_pending += 1
    return shard.num_pending == world.per_update


@part
def _update(world: Any, who: int) -> None:
    """Apply what is pending."""
    task = tables.task(world, who)
    number = task.bucket * world.num_servers + task.server
    tables.shard(world, number).num_pending = 0
    for index in range(number * world.per_update, (number + 1) * world.per_update):
        settle(world, tables.pending(world)[index])


@part
def _begun_by(world: Any, who: int) -> int:
    """Return the delivery that an errand belongs to."""
    task = tables.task(world, who)
    return world.num_ranks + task.rank * world.num_buckets + task.bucket
