"""What Python calls: playing until a job is over, or needs more room."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine.inner.clock import next_due, post_wanted
from clustersim.network.numba_engine.jit import kernel, part
from clustersim.network.numba_engine.tables import NONE
from clustersim.strategies.kernels import bucket_delivery as delivery
from clustersim.strategies.kernels import server_request as errand
from clustersim.strategies.kernels import tables, worker
from clustersim.strategies.kernels.model import lose_patience


@kernel
def play(worlds: np.ndarray, most: int) -> bool:
    """Let all go on while paths are laid and there is room to note what they do; return whether all is over.

    No more than `most` are served, so that Python may look after other things.
    """
    world = worlds[0]
    post_wanted(world.wires)
    for _ in range(most):
        if world.wires.wanted != NONE:
            return False
        if world.furthest + 1 >= world.known or world.num_logged + world.per_update > world.most_logged:
            return False
        who = next_due(world.wires)
        if who == NONE:
            return True
        who = _who_hears(world, who)
        while who != NONE:
            who = _go_on(world, who)
    return False


@part
def _who_hears(world: Any, number: int) -> int:
    """Return who goes on since somebody is due, has ended or may follow: the one that has waited for it, if any."""
    if number < world.num_tasks:
        return number
    if number >= 2 * world.num_tasks:
        who = number - 2 * world.num_tasks
        return who if delivery.follows(world, who) else NONE
    who = number - world.num_tasks
    task = tables.task(world, who)
    task.is_over = 1
    if task.kind == tables.DELIVERY:
        return task.rank if worker.waits_for(world, task.rank, who) else NONE
    waiting = world.num_ranks + task.rank * world.num_buckets + task.bucket
    return waiting if delivery.waits_for(world, waiting, who) else NONE


@part
def _go_on(world: Any, who: int) -> int:
    """Let somebody go on; return who goes on at once, in its place or after it."""
    kind = tables.task(world, who).kind
    if kind == tables.WORKER:
        return worker.go_on(world, who)
    if kind == tables.DELIVERY:
        return delivery.go_on(world, who)
    if kind == tables.ERRAND:
        return errand.go_on(world, who)
    return lose_patience(world, who)
