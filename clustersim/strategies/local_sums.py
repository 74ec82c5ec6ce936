"""Which rank of a host adds what of a bucket before it is pushed, and gives it to the host's others when it is back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clustersim.collectives import Step


class Parts(NamedTuple):
    """The parts of a bucket that ranks push, in columns [num_parts], a bucket being `granularity` chunks.

    Part i is the `num_chunks[i]` chunks from `first[i]` on, of rank `rank[i]`. Another rank of its host, `giver[j]`,
    has a gradient for part `given[j]` and wants its sum [number of pairs].
    """

    rank: np.ndarray
    first: np.ndarray
    num_chunks: np.ndarray
    giver: np.ndarray
    given: np.ndarray
    granularity: int

    def inside(self, num_bytes: float) -> tuple[Step, Step]:
        """Return the messages by which sums of hosts are made, and those by which they come back, of so many bytes."""
        part = self.given
        sent = num_bytes * self.num_chunks[part] / self.granularity
        up = Step.of(self.giver, self.rank[part], sent, self.first[part], self.num_chunks[part], reduce=True)
        return up, Step.of(self.rank[part], self.giver, sent, self.first[part], self.num_chunks[part])

    def to_servers(self, num_servers: int, num_bytes: float) -> Step:
        """Return the messages that are pushed: to each server what it has of each part.

        Servers are called 0 to `num_servers` - 1, and each has as many chunks, one behind another.
        """
        block = self.granularity // num_servers
        server = np.arange(num_servers)
        first = np.maximum(self.first[:, None], server * block)
        count = np.minimum((self.first + self.num_chunks)[:, None], (server + 1) * block) - first
        part, at = np.nonzero(count > 0)
        chunks = count[part, at]
        sent = num_bytes * chunks / self.granularity
        return Step.of(self.rank[part], at, sent, first[part, at], chunks, reduce=True)


def parts_of(groups: Sequence[Sequence[int]], num_servers: int, scattered: bool) -> Parts:
    """Return what each rank of each group pushes: the first of a group all, or, `scattered`, each an equal part.

    >>> parts = parts_of([[0, 1], [2, 3]], num_servers=1, scattered=True)
    >>> parts.rank.tolist(), parts.first.tolist(), parts.num_chunks.tolist(), parts.granularity
    ([0, 1, 2, 3], [0, 1, 0, 1], [1, 1, 1, 1], 2)
    """
    sizes = [len(group) if scattered else 1 for group in groups]
    granularity = num_servers * math.lcm(*sizes)
    rows: list[tuple[int, int, int]] = []
    pairs: list[tuple[int, int]] = []
    for group, size in zip(groups, sizes, strict=True):
        for place, rank in enumerate(group[:size]):
            pairs += [(other, len(rows)) for other in group if other != rank]
            rows.append((rank, granularity // size * place, granularity // size))
    rank, first, num_chunks = np.array(rows, dtype=np.int64).T
    giver, given = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Parts(rank, first, num_chunks, giver, given, granularity)
