"""Checks of how tokens travel to experts: whether the GPUs of a group and their hosts allow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from clustersim.collectives.expert_tokens import expert_schedule
from clustersim.communicator.algorithm import by_host
from clustersim.errors import InputError, Mistake
from clustersim.parallelism import ModelLayout
from clustersim.parallelism.experts import AXIS
from clustersim.program.ops import Call


def routing_mistakes(laid_out: ModelLayout, hosts: np.ndarray) -> Iterator[Mistake]:
    """Yield that tokens cannot travel so among the GPUs that split experts; `hosts` [num_ranks] are those of ranks."""
    ops = (op for plan in laid_out.plans for op in plan.program.distinct() if isinstance(op, Call))
    routings = list(dict.fromkeys(op.routing for op in ops if op.routing is not None))
    if not routings:
        return
    placed = {tuple(map(tuple, by_host(hosts[group]))) for group in laid_out.grid.groups((AXIS,))}
    try:
        for groups in sorted(placed):
            for routing in routings:
                expert_schedule(groups, 1.0, routing)
    except InputError as error:
        yield from (replace(each, key=f"parallelism.{each.key}") for each in error.mistakes)
