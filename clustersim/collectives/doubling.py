"""Recursive doubling: ranks exchange all that they have with a partner 1, 2, 4, ... ranks away.

Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005. For a number of
ranks that is not a power of two, the extra ranks are folded into neighbours first and receive the result at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.schedule import Schedule, Step


class PowerOfTwoFolding(NamedTuple):
    """The ranks that take part in an algorithm for powers of two, and those that fold into a neighbour.

    Of the first 2 x `num_extra` ranks, `folded[i]` = 2 i sends its part to `hosts[i]` = 2 i + 1. The participants are
    `members` [power], the `hosts` first; member v represents chunks `bounds[v]` to `bounds[v + 1]` - 1 of a buffer with
    one chunk per rank.
    """

    power: int
    members: np.ndarray
    folded: np.ndarray
    hosts: np.ndarray
    bounds: np.ndarray

    @property
    def num_extra(self) -> int:
        return len(self.folded)


def fold(num_ranks: int) -> PowerOfTwoFolding:
    """Return the folding of `num_ranks` ranks to the largest power of two that is not above it.

    >>> fold(5).members.tolist()
    [1, 2, 3, 4]
    """
    power = 1 << (num_ranks.bit_length() - 1)
    num_extra = num_ranks - power
    number = np.arange(power)
    members = np.where(number < num_extra, 2 * number + 1, number + num_extra)
    folded = 2 * np.arange(num_extra)
    bounds = np.concatenate([[0], members + 1])
    return PowerOfTwoFolding(power, members, folded, folded + 1, bounds)


def doubling_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-reduce in which partners exchange and add whole buffers.

    floor(log2 n) steps, in each of which a rank sends its whole buffer; 2 more, of one whole buffer from or to each
    folded rank, if n is not a power of two.

    >>> [(t.src, t.dst) for t in doubling_all_reduce(2, 8.0).transfers()]
    [(0, 1), (1, 0)]
    """
    check_collective(num_ranks, num_bytes)
    folding = fold(num_ranks)

    def exchange(number: int) -> Step:
        peers = folding.members[np.arange(folding.power) ^ (1 << number)]
        return Step.of(folding.members, peers, num_bytes, reduce=True)

    middle = Schedule(num_ranks, folding.power.bit_length() - 1, exchange)
    return folded_whole(folding, middle, num_bytes, num_bytes)


def doubling_all_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return floor(log2 n) messages of b bytes, and 2 more if n is not a power of two."""
    num_messages = fold_log2(num_ranks) + (2 if num_ranks & (num_ranks - 1) else 0)
    return Cost(num_messages, num_messages * num_bytes)


def doubling_all_gather(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-gather into a buffer of `num_bytes`, in which partners exchange all that they have gathered.

    floor(log2 n) steps in which a rank sends (n - 1) / n of the buffer if n is a power of two; otherwise 2 more, one
    with a folded rank's chunk and one with the whole buffer except that chunk.
    """
    check_collective(num_ranks, num_bytes)
    folding = fold(num_ranks)
    middle = gather_blocks(num_ranks, num_bytes, folding.members, folding.bounds)
    if not folding.num_extra:
        return middle
    share = num_bytes / num_ranks
    first = Step.of(folding.folded, folding.hosts, share, folding.folded)
    last = Step.of(folding.hosts, folding.folded, share * (num_ranks - 1), folding.hosts, num_ranks - 1)
    ends = [Schedule.from_steps(num_ranks, [step], num_ranks) for step in (first, last)]
    return Schedule.concatenate([ends[0], middle, ends[1]])


def doubling_all_gather_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return the messages of the ranks that represent the most chunks, which are the first.

    In step s they exchange 2^s + min(2^s, extra) chunks, extra being n - 2^floor(log2 n). Before that there is one
    chunk from each folded rank, and after it n - 1 chunks back.
    """
    share = num_bytes / num_ranks
    middle = block_exchange_cost(num_ranks, share)
    return middle if not num_ranks & (num_ranks - 1) else middle.plus(Cost(2, num_ranks * share))


def gather_blocks(num_ranks: int, num_bytes: float, members: np.ndarray, bounds: np.ndarray) -> Schedule:
    """Schedule the recursive doubling of 2^k members; member v starts with chunks `bounds[v]` to `bounds[v + 1]` - 1.

    `bounds` [2^k + 1] ends with the number of chunks of the buffer of `num_bytes`.
    """
    member = np.arange(len(members))
    granularity = int(bounds[-1])

    def exchange(number: int) -> Step:
        size = 1 << number
        own = member // size * size
        count = bounds[own + size] - bounds[own]
        return Step.of(members, members[member ^ size], count * num_bytes / granularity, bounds[own], count)

    return Schedule(num_ranks, len(members).bit_length() - 1, exchange, granularity)


def block_exchange_cost(num_ranks: int, share: float) -> Cost:
    """Return the cost of the first member's exchanges, doubling or halving; `share` is b / n."""
    steps = fold_log2(num_ranks)
    num_extra = num_ranks - (1 << steps)
    return Cost(steps, share * sum((1 << step) + min(1 << step, num_extra) for step in range(steps)))


def folded_whole(folding: PowerOfTwoFolding, middle: Schedule, bytes_in: float, bytes_out: float) -> Schedule:
    """Return the schedule with whole buffers from the folded ranks before it, and whole buffers to them after it."""
    if not folding.num_extra:
        return middle
    chunks = middle.granularity
    first = Step.of(folding.folded, folding.hosts, bytes_in, 0, chunks, reduce=True)
    last = Step.of(folding.hosts, folding.folded, bytes_out, 0, chunks)
    ends = [Schedule.from_steps(middle.num_ranks, [step], chunks) for step in (first, last)]
    return Schedule.concatenate([ends[0], middle, ends[1]])


def fold_log2(num_ranks: int) -> int:
    """Return floor(log2 n), the number of exchanges of a member."""
    return num_ranks.bit_length() - 1
