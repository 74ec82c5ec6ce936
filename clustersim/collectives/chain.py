"""Pipelined chains: the buffer goes from rank to rank in pieces, all ranks at work at once.

NCCL's broadcast and reduce, which it calls rings. As `rings`, several may run at once, each with an equal share of
the bytes and with the ranks in an order of its own, which is gone through from rank 0 on.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.orders import Orders, checked_orders
from clustersim.collectives.pipeline import default_num_chunks
from clustersim.collectives.schedule import Relays, Schedule, Step
from clustersim.collectives.spells import Spells


def chain_broadcast(
    num_ranks: int, num_bytes: float, num_chunks: int | None = None, rings: Orders | None = None
) -> Schedule:
    """Schedule a broadcast of rank 0's buffer down the chain 0, 1, ..., n - 1 in `num_chunks` pieces.

    num_chunks + n - 2 steps; each rank but the last sends the whole buffer once. Pieces of 512 KiB by default.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, down=True)


def chain_reduce(
    num_ranks: int, num_bytes: float, num_chunks: int | None = None, rings: Orders | None = None
) -> Schedule:
    """Schedule a reduction up the chain n - 1, ..., 1, 0 in `num_chunks` pieces, to rank 0.

    num_chunks + n - 2 steps; each rank but 0 sends the whole buffer once. Pieces of 512 KiB by default.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, down=False)


def chain_cost(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Cost:
    """Return num_chunks + n - 2 messages of b / num_chunks bytes, for one chain."""
    if num_ranks == 1:
        return Cost(0, 0.0)
    pieces = _num_chunks(num_ranks, num_bytes, num_chunks)
    num_messages = pieces + num_ranks - 2
    return Cost(num_messages, num_messages * num_bytes / pieces)


def _num_chunks(num_ranks: int, num_bytes: float, num_chunks: int | None) -> int:
    pieces = default_num_chunks(num_bytes, num_ranks - 1) if num_chunks is None else num_chunks
    check_at_least_one("num_chunks", pieces)
    return pieces


def _chains(num_ranks: int, num_bytes: float, num_chunks: int | None, rings: Orders | None, *, down: bool) -> Schedule:
    """Return the schedule of chains side by side: hop h of each passes a piece on in every step from the h-th on."""
    check_collective(num_ranks, num_bytes)
    orders = np.arange(num_ranks)[None] if rings is None else checked_orders(num_ranks, rings)
    pieces = _num_chunks(num_ranks, num_bytes / len(orders), num_chunks)
    if num_ranks == 1:
        return Schedule.idle(1, pieces * len(orders))
    from_root = np.array([np.roll(order, -int(np.flatnonzero(order == 0)[0])) for order in orders])
    if not down:
        from_root = from_root[:, ::-1]
    first = np.tile(np.arange(num_ranks - 1), len(orders))
    own = np.repeat(np.arange(len(orders)), num_ranks - 1)
    ends = from_root[:, :-1].ravel(), from_root[:, 1:].ravel()
    columns = Step.of(*ends, num_bytes / len(orders) / pieces, own * pieces - first, reduce=not down)
    relays = None if rings is None else Relays(*ends, np.full(len(first), 1 / len(orders)))
    spells, num_steps = Spells(columns, first, first + pieces), pieces + num_ranks - 2
    return spells.schedule(num_ranks, num_steps, pieces * len(orders), relays)
