"""Pipelined chains: the buffer goes from rank to rank in pieces, all ranks at work at once.

NCCL's broadcast and reduce, which it calls rings. As `rings`, several may run at once, each with an equal share of
the bytes and with the ranks in an order of its own, which is gone through from rank 0 on.

NCCL cuts what each of its channels has into pieces of 512 KiB (`REDUCE_CHUNKSTEPS` and `BROADCAST_CHUNKSTEPS` are 1,
src/include/collectives.h; `loopSize` in src/collectives/device/reduce.h of 2.4 to 2.8). A chain that stands for several
channels of one order so has pieces of as many times that, `piece_bytes`: 6 MB on 12 channels are one piece, which takes
15 times as long through 16 GPUs as over a link. That is the protocol Simple, which NCCL takes there above some 300 kB:
where channels have one order its estimate counts the latency of one hop alone (`sameChannels`, src/graph/tuning.cc).
Where they have not, as among hosts, it counts every hop's and prefers LL and LL128, whose pieces are lines of 8 and 128
bytes; those chains have pieces of 512 KiB each here.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.orders import Orders, checked_orders
from clustersim.collectives.pipeline import PIECE_BYTES, default_num_chunks
from clustersim.collectives.schedule import Relays, Schedule, Step
from clustersim.collectives.spells import Spells


def chain_broadcast(
    num_ranks: int,
    num_bytes: float,
    num_chunks: int | None = None,
    rings: Orders | None = None,
    piece_bytes: float = PIECE_BYTES,
) -> Schedule:
    """Schedule a broadcast of rank 0's buffer down the chain 0, 1, ..., n - 1 in `num_chunks` pieces.

    num_chunks + n - 2 steps; each rank but the last sends the whole buffer once. Pieces of `piece_bytes` by default.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, piece_bytes, down=True)


def chain_reduce(
    num_ranks: int,
    num_bytes: float,
    num_chunks: int | None = None,
    rings: Orders | None = None,
    piece_bytes: float = PIECE_BYTES,
) -> Schedule:
    """Schedule a reduction up the chain n - 1, ..., 1, 0 in `num_chunks` pieces, to rank 0.

    num_chunks + n - 2 steps; each rank but 0 sends the whole buffer once. Pieces of `piece_bytes` by default.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, piece_bytes, down=False)


def chain_cost(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Cost:
    """Return num_chunks + n - 2 messages of b / num_chunks bytes, for one chain."""
    if num_ranks == 1:
        return Cost(0, 0.0)
    pieces = _num_chunks(num_ranks, num_bytes, num_chunks)
    num_messages = pieces + num_ranks - 2
    return Cost(num_messages, num_messages * num_bytes / pieces)


def _num_chunks(num_ranks: int, num_bytes: float, num_chunks: int | None, piece_bytes: float = PIECE_BYTES) -> int:
    pieces = default_num_chunks(num_bytes, num_ranks - 1, piece_bytes) if num_chunks is None else num_chunks
    check_at_least_one("num_chunks", pieces)
    return pieces


def _chains(
    num_ranks: int, num_bytes: float, num_chunks: int | None, rings: Orders | None, piece_bytes: float, *, down: bool
) -> Schedule:
    """Return the schedule of chains side by side: hop h of each passes a piece on in every step from the h-th on."""
    check_collective(num_ranks, num_bytes)
    orders = np.arange(num_ranks)[None] if rings is None else checked_orders(num_ranks, rings)
    pieces = _num_chunks(num_ranks, num_bytes / len(orders), num_chunks, piece_bytes)
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
