"""Pipelined chains: the buffer passes from rank to rank in pieces, and all ranks send at the same time.

These are NCCL's broadcast and reduce, which it calls rings. As `rings`, several chains run at once, each with an equal
share of the bytes and with its own order of ranks, which begins at rank 0.

NCCL divides the bytes of each of its channels into pieces of 512 KiB (`REDUCE_CHUNKSTEPS` and `BROADCAST_CHUNKSTEPS`
are 1, src/include/collectives.h; `loopSize` in src/collectives/device/reduce.h of 2.4 to 2.8). So a chain that
represents several channels with one order has pieces of as many times that size, `piece_bytes`: 6 MB on 12 channels are
one piece, which takes 15 times as long through 16 GPUs as over one link. That is the protocol Simple, which NCCL takes
for such chains above some 300 kB: if channels have one order its estimate counts the latency of one hop alone
(`sameChannels`, src/graph/tuning.cc). If they have different orders, as among hosts, it counts the latency of every hop
and prefers LL and LL128, whose pieces are lines of 16 and 128 bytes. A rank passes each line on as it arrives. So with
`lines` several hops in a row, a stage, move a piece in the same step, and 64 pieces do for any number of ranks. With w
for the latency of the route and c for the time of all bytes on the slowest link, such a chain of h hops and p pieces of
1 KiB takes from w + c to w + c + f c, where f = (h - 1) / p to 0.8 %. So does the chain in which each hop is a stage.
NCCL's estimate is w + c. f is at most 1 / 8 if there are eight pieces or more for each hop.
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

MOST_PIECES_OF_LINES = 64


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
    lines: bool = False,
) -> Schedule:
    """Schedule a broadcast of rank 0's buffer down the chain 0, 1, ..., n - 1 in `num_chunks` pieces.

    num_chunks + n - 2 steps; each rank but the last sends the whole buffer once. Pieces of `piece_bytes` by default.
    With `lines` there are at most 64 pieces, and stages instead of hops.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, piece_bytes, lines and num_chunks is None, down=True)


def chain_reduce(
    num_ranks: int,
    num_bytes: float,
    num_chunks: int | None = None,
    rings: Orders | None = None,
    piece_bytes: float = PIECE_BYTES,
    lines: bool = False,
) -> Schedule:
    """Schedule a reduction up the chain n - 1, ..., 1, 0 in `num_chunks` pieces, to rank 0.

    num_chunks + n - 2 steps; each rank but 0 sends the whole buffer once. Pieces of `piece_bytes` by default.
    With `lines` there are at most 64 pieces, and stages instead of hops.
    """
    return _chains(num_ranks, num_bytes, num_chunks, rings, piece_bytes, lines and num_chunks is None, down=False)


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


def _stages(num_hops: int, pieces: int, lines: bool) -> tuple[np.ndarray, int]:
    """Return the stage of each hop [num_hops], and the number of pieces.

    With lines and many pieces, filling the pipeline takes the same part of the time with fewer pieces and stages.

    >>> _stages(511, 4088, True)[0][[0, 30, 40, 510]].tolist(), _stages(3, 24, True)[1]
    ([0, 0, 1, 8], 24)
    """
    hops = np.arange(num_hops)
    if not lines or pieces <= MOST_PIECES_OF_LINES or num_hops == 1:
        return hops, pieces
    last = round(MOST_PIECES_OF_LINES * (num_hops - 1) / pieces)
    return np.rint(hops * last / (num_hops - 1)).astype(np.int64), MOST_PIECES_OF_LINES


def _beginnings(stages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hops [num_hops] whose ranks could begin too early, and for each the first hop of the stage before.

    >>> [hops.tolist() for hops in _beginnings(np.array([0, 0, 1, 1, 1]))]
    [[3, 4], [0, 0]]
    """
    later = 1 + np.flatnonzero((stages[1:] == stages[:-1]) & (stages[1:] > 0))
    return later, np.searchsorted(stages, stages[later] - 1)


def _chains(
    num_ranks: int,
    num_bytes: float,
    num_chunks: int | None,
    rings: Orders | None,
    piece_bytes: float,
    lines: bool,
    *,
    down: bool,
) -> Schedule:
    """Return the schedule of chains side by side: a hop of stage s passes a piece on in every step from the s-th on.

    The ranks of a stage wait for a message without bytes from the first hop of the stage before: none begins too early.
    """
    check_collective(num_ranks, num_bytes)
    orders = np.arange(num_ranks)[None] if rings is None else checked_orders(num_ranks, rings)
    pieces = _num_chunks(num_ranks, num_bytes / len(orders), num_chunks, piece_bytes)
    if num_ranks == 1:
        return Schedule.idle(1, pieces * len(orders))
    stages, pieces = _stages(num_ranks - 1, pieces, lines)
    from_root = np.array([np.roll(order, -int(np.flatnonzero(order == 0)[0])) for order in orders])
    if not down:
        from_root = from_root[:, ::-1]
    first = np.tile(stages, len(orders))
    own = np.repeat(np.arange(len(orders)), num_ranks - 1)
    ends = from_root[:, :-1].ravel(), from_root[:, 1:].ravel()
    columns = Step.of(*ends, num_bytes / len(orders) / pieces, own * pieces - first, reduce=not down)
    relays = None if rings is None else Relays.of(*ends, 1 / len(orders))
    runs, num_steps = RunLengthSteps(columns, first, first + pieces), pieces + int(stages[-1])
    later, before = _beginnings(stages)
    if len(later):
        pairs = from_root[:, before].ravel(), from_root[:, later].ravel()
        begun = np.tile(stages[later], len(orders))
        runs = runs.with_more(Step.of(*pairs, 0.0, num_chunks=0, reduce=not down), begun - 1, begun)
    return runs.schedule(num_ranks, num_steps, pieces * len(orders), relays, passes_on=lines)
