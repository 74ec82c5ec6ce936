"""Rings: in every step each rank sends to the next one and receives from the one before.

Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. As `rings`, several
run at once, each with an equal share of the bytes and with its own order of ranks, as NCCL's channels do: its rings go
through all GPUs, and every one leaves a host by another adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.schedule import Relays, Schedule, Step, cached_steps
from clustersim.errors import InputError

Orders = Sequence[Sequence[int]] | np.ndarray
"""The ranks in the order of each ring [num_rings, num_ranks]."""


def checked_orders(num_ranks: int, rings: Orders) -> np.ndarray:
    """Return orders as a table [num_rings, num_ranks]; raise InputError unless each ring has each rank once."""
    all_ranks = list(range(num_ranks))
    for order in rings:
        if sorted(order) != all_ranks:
            raise InputError(
                f"each of the rings must have every rank from 0 to {num_ranks - 1} once (got {list(order)[:20]})",
                got=str(list(order)[:20]),
            )
    if not len(rings):
        raise InputError("there must be at least one of the rings (got none)", got="none")
    return np.asarray(rings, dtype=np.int64)


def ring_all_reduce(num_ranks: int, num_bytes: float, rings: Orders | None = None) -> Schedule:
    """Schedule a ring all-reduce: a reduce-scatter once around, an all-gather once around.

    2 (n - 1) steps; each rank sends 2 (n - 1) / n of the buffer (Patarasuk and Yuan, 2009).

    >>> [t.dst for t in ring_all_reduce(3, 12.0).transfers() if t.step == 0]
    [1, 2, 0]
    """
    if rings is not None:
        return _parallel_rings(ring_all_reduce, num_ranks, num_bytes, rings)
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)
    return Schedule.repeat(
        num_steps=2 * (num_ranks - 1),
        src=rank,
        dst=(rank + 1) % num_ranks,
        num_bytes=num_bytes / num_ranks,
        chunk=lambda step: (rank - step) % num_ranks,
        reduce=lambda step: step <= num_ranks - 2,
    )


def ring_all_reduce_cost(num_ranks: int, num_bytes: float, rings: Orders | None = None) -> Cost:
    """Return 2 (n - 1) messages of b / n bytes, on a star for any number of rings."""
    return Cost(2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes / num_ranks)


def ring_reduce_scatter(num_ranks: int, num_bytes: float, rings: Orders | None = None) -> Schedule:
    """Schedule a ring reduce-scatter of a buffer of `num_bytes`: rank r ends with the sum of chunk r.

    n - 1 steps; each rank sends (n - 1) / n of the buffer (Patarasuk and Yuan, 2009).
    """
    if rings is not None:
        return _parallel_rings(ring_reduce_scatter, num_ranks, num_bytes, rings)
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)
    return Schedule.repeat(
        num_steps=num_ranks - 1,
        src=rank,
        dst=(rank + 1) % num_ranks,
        num_bytes=num_bytes / num_ranks,
        chunk=lambda step: (rank - step - 1) % num_ranks,
        reduce=lambda step: True,
    )


def ring_all_gather(num_ranks: int, num_bytes: float, rings: Orders | None = None) -> Schedule:
    """Schedule a ring all-gather into a buffer of `num_bytes`: rank r starts with chunk r of it.

    n - 1 steps; each rank sends (n - 1) / n of the gathered buffer (Patarasuk and Yuan, 2009).
    """
    if rings is not None:
        return _parallel_rings(ring_all_gather, num_ranks, num_bytes, rings)
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)
    return Schedule.repeat(
        num_steps=num_ranks - 1,
        src=rank,
        dst=(rank + 1) % num_ranks,
        num_bytes=num_bytes / num_ranks,
        chunk=lambda step: (rank - step) % num_ranks,
        reduce=lambda step: False,
    )


def half_ring_cost(num_ranks: int, num_bytes: float, rings: Orders | None = None) -> Cost:
    """Return n - 1 messages of b / n bytes, on a star for any rings: the cost of a reduce-scatter or all-gather."""
    return Cost(num_ranks - 1, (num_ranks - 1) * num_bytes / num_ranks)


def ring_send_recv(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule one message of `num_bytes` from every rank to the next, as nccl-tests' sendrecv does.

    1 step; each rank sends its whole buffer. Chunk r is the message of rank r. A single rank sends nothing.
    """
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)
    return Schedule.repeat(
        num_steps=min(1, num_ranks - 1),
        src=rank,
        dst=(rank + 1) % num_ranks,
        num_bytes=num_bytes,
        chunk=lambda step: rank,
        reduce=lambda step: False,
    )


def ring_send_recv_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 1 message of b bytes, or none for a single rank."""
    return Cost(1, num_bytes) if num_ranks > 1 else Cost(0, 0.0)


def _parallel_rings(
    ring: Callable[[int, float], Schedule], num_ranks: int, num_bytes: float, rings: Orders
) -> Schedule:
    """Schedule several rings, each with its part of every rank's chunk, which is the same on all hops.

    `orders[c, r]` does in ring c what rank r does in a single ring. What one rank sends another in a step is one
    message. NCCL's channels send ahead into buffers (`src/device/prims_simple.h`), so there are relays.
    """
    orders = checked_orders(num_ranks, rings)
    num_rings = len(orders)
    one = ring(num_ranks, num_bytes / num_rings)

    def finer(number: int) -> Step:
        """Return the separate messages of all rings in a step."""
        columns = one.step(number)
        return Step(
            orders[:, columns.src].ravel(),
            orders[:, columns.dst].ravel(),
            np.tile(columns.num_bytes, num_rings),
            (orders[:, columns.chunk] * num_rings + np.arange(num_rings)[:, None]).ravel(),
            np.tile(columns.num_chunks, num_rings),
            np.tile(columns.reduce, num_rings),
        )

    def coalesced(number: int) -> Step:
        return finer(number).coalesced()

    relays = Relays.of(orders.ravel(), np.roll(orders, -1, axis=1).ravel(), one.num_steps / orders.size)
    return Schedule(
        num_ranks, one.num_steps, cached_steps(coalesced), num_ranks * num_rings, one.pattern, finer, relays
    )
