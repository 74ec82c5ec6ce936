"""Recursive halving: each partner takes over half of their common chunks, and adds the other's part.

Rabenseifner, "Optimization of collective reduction operations", 2004; Thakur, Rabenseifner and Gropp, 2005. For a
number of ranks that is not a power of two, the extra ranks are folded into neighbours first and receive the result at
the end.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.doubling import block_exchange_cost, fold, fold_log2, folded_whole, gather_blocks
from clustersim.collectives.schedule import Schedule, Step


def halving_doubling_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule Rabenseifner's all-reduce: reduce-scatter by recursive halving, all-gather by recursive doubling.

    2 floor(log2 n) steps in which a rank sends 2 (p - 1) / p of the buffer, p being the largest power of two
    up to n; 2 more, of one whole buffer from or to each folded rank, if n is not a power of two.

    >>> [t.num_bytes for t in halving_doubling_all_reduce(4, 8.0).transfers() if t.src == 0]
    [4.0, 2.0, 2.0, 4.0]
    """
    check_collective(num_ranks, num_bytes)
    folding = fold(num_ranks)
    bounds = np.arange(folding.power + 1)
    halves = halve_blocks(num_ranks, num_bytes, folding.members, bounds)
    middle = Schedule.concatenate([halves, gather_blocks(num_ranks, num_bytes, folding.members, bounds)])
    return folded_whole(folding, middle, num_bytes, num_bytes)


def halving_doubling_all_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 2 log2 p messages of 2 (p - 1) / p b bytes together, and 2 more of b each if n is not p."""
    steps = fold_log2(num_ranks)
    power = 1 << steps
    middle = Cost(2 * steps, 2 * (power - 1) * num_bytes / power)
    return middle if power == num_ranks else middle.plus(Cost(2, 2 * num_bytes))


def halving_reduce_scatter(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a reduce-scatter of a buffer of `num_bytes` by recursive halving: rank r ends with the sum of chunk r.

    floor(log2 n) steps in which a rank sends (n - 1) / n of the buffer if n is a power of two; otherwise
    2 more, one with the whole buffer of each folded rank and one with its chunk of the sum.
    """
    check_collective(num_ranks, num_bytes)
    folding = fold(num_ranks)
    middle = halve_blocks(num_ranks, num_bytes, folding.members, folding.bounds)
    if not folding.num_extra:
        return middle
    first = Step.of(folding.folded, folding.hosts, num_bytes, 0, num_ranks, reduce=True)
    last = Step.of(folding.hosts, folding.folded, num_bytes / num_ranks, folding.folded)
    ends = [Schedule.from_steps(num_ranks, [step], num_ranks) for step in (first, last)]
    return Schedule.concatenate([ends[0], middle, ends[1]])


def halving_reduce_scatter_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return the messages of the ranks that represent the most chunks, which are the first.

    In step s from the last they receive 2^s + min(2^s, extra) chunks, extra being n - 2^floor(log2 n). Before
    that there is a whole buffer from each folded rank, and after it one chunk back.
    """
    middle = block_exchange_cost(num_ranks, num_bytes / num_ranks)
    extra = Cost(2, num_bytes + num_bytes / num_ranks)
    return middle if not num_ranks & (num_ranks - 1) else middle.plus(extra)


def halve_blocks(num_ranks: int, num_bytes: float, members: np.ndarray, bounds: np.ndarray) -> Schedule:
    """Schedule the recursive halving of 2^k members: v ends with the sum of chunks `bounds[v]` to `bounds[v + 1]` - 1.

    `bounds` [2^k + 1] ends with the number of chunks of the buffer of `num_bytes`.
    """
    member = np.arange(len(members))
    granularity = int(bounds[-1])

    def exchange(number: int) -> Step:
        size = len(members) >> (number + 1)
        peer = member ^ size
        start = peer // size * size
        count = bounds[start + size] - bounds[start]
        return Step.of(members, members[peer], count * num_bytes / granularity, bounds[start], count, reduce=True)

    return Schedule(num_ranks, len(members).bit_length() - 1, exchange, granularity)
