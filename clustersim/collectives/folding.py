"""Any number of ranks on an algorithm for powers of two: fold the extra ranks in first and out last.

Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Folding(NamedTuple):
    """Which ranks go on by themselves, and which fold into a neighbour.

    Of the first 2 x `num_extra` ranks, `folded[i]` = 2 i hands its part to `hosts[i]` = 2 i + 1. The ranks
    that go on are `members` [power], the hosts first, so that member v speaks for chunks `bounds[v]` to
    `bounds[v + 1]` - 1 of a buffer with one chunk a rank.
    """

    power: int
    members: np.ndarray
    folded: np.ndarray
    hosts: np.ndarray
    bounds: np.ndarray

    @property
    def num_extra(self) -> int:
        return len(self.folded)


def fold(num_ranks: int) -> Folding:
    """Return how `num_ranks` ranks become the largest power of two that is not above them.

    >>> fold(5).members.tolist()
    [1, 2, 3, 4]
    """
    power = 1 << (num_ranks.bit_length() - 1)
    num_extra = num_ranks - power
    number = np.arange(power)
    members = np.where(number < num_extra, 2 * number + 1, number + num_extra)
    folded = 2 * np.arange(num_extra)
    bounds = np.concatenate([[0], members + 1])
    return Folding(power, members, folded, folded + 1, bounds)
