"""Several collectives of one kind at once, each with its share of the bytes and among the ranks in an order of its own.

NCCL calls each a channel: its rings through all GPUs, of which every one leaves a host by another adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clustersim.collectives.schedule import Relays, Schedule, Step
from clustersim.errors import InputError

Orders = Sequence[Sequence[int]] | np.ndarray
"""The ranks in the order of each ring [num_rings, num_ranks]."""


def side_by_side(
    one: Schedule, orders: np.ndarray, granularity: int, chunk: Callable[[np.ndarray, int], np.ndarray], relays: Relays
) -> Schedule:
    """Return the schedule of several at once that are like `one`, each among the ranks in an order of its own.

    What rank r does in `one`, `orders[c, r]` does in number c [num_orders, num_ranks]. Chunk q of number c is
    `chunk(q, c)` of all `granularity` chunks. What one rank sends another in a step goes as one message. NCCL's
    channels send ahead into buffers (`src/device/prims_simple.h`): `relays` are the hops of a chunk.
    """

    def finer(number: int) -> Step:
        columns = one.step(number)
        return Step(
            orders[:, columns.src].ravel(),
            orders[:, columns.dst].ravel(),
            np.tile(columns.num_bytes, len(orders)),
            np.concatenate([chunk(columns.chunk, own) for own in range(len(orders))]),
            np.tile(columns.num_chunks, len(orders)),
            np.tile(columns.reduce, len(orders)),
        )

    def step(number: int) -> Step:
        return finer(number).together()

    return Schedule(one.num_ranks, one.num_steps, step, granularity, one.pattern, finer, relays)


def checked_orders(name: str, num_ranks: int, orders: Orders) -> np.ndarray:
    """Return orders of ranks as a table [num_orders, num_ranks]; refuse what does not have each rank once in each."""
    everybody = list(range(num_ranks))
    for order in orders:
        if sorted(order) != everybody:
            raise InputError(
                f"each of the {name} must have every rank from 0 to {num_ranks - 1} once (got {list(order)[:20]})",
                got=str(list(order)[:20]),
            )
    if not len(orders):
        raise InputError(f"there must be at least one of the {name} (got none)", got="none")
    return np.asarray(orders, dtype=np.int64)
