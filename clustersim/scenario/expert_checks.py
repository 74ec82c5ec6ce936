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


def token_route_mistakes(laid_out: ModelLayout, domains: np.ndarray) -> Iterator[Mistake]:
    """Yield that tokens cannot travel so among the GPUs that split experts.

    `domains` [num_ranks] are the NVLink domains of ranks.
    """
    ops = (op for plan in laid_out.plans for op in plan.program.distinct() if isinstance(op, Call))
    token_routes = list(dict.fromkeys(op.token_route for op in ops if op.token_route is not None))
    if not token_routes:
        return
    placed = {tuple(map(tuple, by_host(domains[group]))) for group in laid_out.grid.groups((AXIS,))}
    try:
        for groups in sorted(placed):
            for token_route in token_routes:
                expert_schedule(groups, 1.0, token_route)
    except InputError as error:
        yield from (replace(each, key=f"parallelism.{each.key}") for each in error.mistakes)
