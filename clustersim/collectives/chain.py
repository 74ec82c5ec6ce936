"""Pipelined chains: the buffer passes from rank to rank in pieces, and all ranks send at the same time.

These are NCCL's broadcast and reduce, which it calls rings. As `rings`, several chains run at once, each with an equal
share of the bytes and with its own order of ranks, which begins at rank 0.

NCCL divides the bytes of each of its channels into pieces of 512 KiB (`REDUCE_CHUNKSTEPS` and `BROADCAST_CHUNKSTEPS`
are 1, src/include/collectives.h; `loopSize` in src/collectives/device/reduce.h of 2.4 to 2.8). So a chain that
represents several channels with one order has pieces of as many times that size, `piece_bytes`: 6 MB on 12 channels are
one piece, which takes 15 times as long through 16 GPUs as over one link. That is the protocol Simple, which NCCL takes
for such chains above some 300 kB: if channels have one order its estimate counts the latency of one hop alone
(`sameChannels`, src/graph/tuning.cc). If they have different orders, as among hosts, it counts the latency of every hop
and prefers LL and LL128, whose pieces are lines of 8 and 128 bytes; those chains have pieces of 512 KiB each here.
"""

from __future__ import annotations

import math

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.ring import Orders, checked_orders
from clustersim.collectives.run_length import RunLengthSteps
from clustersim.collectives.schedule import Relays, Schedule, Step

PIECE_BYTES = 512 * 1024
"""One of the 8 slots of NCCL's 4 MiB buffer for large messages (`NCCL_STEPS`, `NCCL_BUFFSIZE`)."""

LINES_BYTES = 1024
"""A piece with the protocols LL and LL128, which pass on lines of 16 and 128 bytes: assumed: so many together."""

PIECES_PER_HOP = 8


def default_num_chunks(num_bytes: float, num_hops: int, piece_bytes: float = PIECE_BYTES) -> int:
    """Return the number of pieces of a buffer that passes through `num_hops` ranks one after another.

    Pieces have 512 KiB, as in NCCL, or `piece_bytes`, but there are at most 8 per hop: filling the pipeline then takes
    at most about an eighth of the whole, and finer pieces would only be more messages.

    >>> default_num_chunks(1e3, 4), default_num_chunks(8e6, 4), default_num_chunks(1e9, 4)
    (1, 16, 32)
    """
    return max(1, min(math.ceil(num_bytes / piece_bytes), PIECES_PER_HOP * num_hops))


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
    relays = None if rings is None else Relays.of(*ends, 1 / len(orders))
    runs, num_steps = RunLengthSteps(columns, first, first + pieces), pieces + num_ranks - 2
    return runs.schedule(num_ranks, num_steps, pieces * len(orders), relays)
