"""Local sums: the ranks of a host add parts of a bucket before they push it, and share the parameters after a pull."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clustersim.collectives import Step


class PushedParts(NamedTuple):
    """The parts of a bucket that ranks push, in columns [num_parts]. A bucket has `granularity` chunks.

    Rank `rank[i]` pushes part i: `num_chunks[i]` chunks from chunk `first[i]` on. Local pair j says that rank `peer[j]`
    of the same host sends its gradient of part `peer_part[j]` to the rank that pushes the part, and gets its parameters
    back [number of pairs].
    """

    rank: np.ndarray
    first: np.ndarray
    num_chunks: np.ndarray
    peer: np.ndarray
    peer_part: np.ndarray
    granularity: int

    @property
    def has_local_sum(self) -> bool:
        """Whether any rank sends its gradient to another rank of its host."""
        return len(self.peer) > 0

    def local_sum(self, num_bytes: float) -> Step:
        """Return the messages that add a bucket of `num_bytes` inside each host."""
        copies = self.local_copies(num_bytes)
        return Step.of(copies.dst, copies.src, copies.num_bytes, copies.chunk, copies.num_chunks, reduce=True)

    def local_copies(self, num_bytes: float) -> Step:
        """Return the messages that copy the parameters of a bucket to the other ranks of each host."""
        part = self.peer_part
        sent = num_bytes * self.num_chunks[part] / self.granularity
        return Step.of(self.rank[part], self.peer, sent, self.first[part], self.num_chunks[part])

    def to_servers(self, num_servers: int, num_bytes: float) -> Step:
        """Return the messages of the push: to each server its chunks of each part.

        Servers have the numbers 0 to `num_servers` - 1. Each has an equal number of consecutive chunks.
        """
        block = self.granularity // num_servers
        server = np.arange(num_servers)
        first = np.maximum(self.first[:, None], server * block)
        count = np.minimum((self.first + self.num_chunks)[:, None], (server + 1) * block) - first
        part, at = np.nonzero(count > 0)
        chunks = count[part, at]
        sent = num_bytes * chunks / self.granularity
        return Step.of(self.rank[part], at, sent, first[part, at], chunks, reduce=True)


def push_parts(groups: Sequence[Sequence[int]], num_servers: int, scattered: bool) -> PushedParts:
    """Return the part that each rank of each group pushes: the first rank all, or with `scattered` equal parts.

    >>> parts = push_parts([[0, 1], [2, 3]], num_servers=1, scattered=True)
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
    peer, peer_part = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return PushedParts(rank, first, num_chunks, peer, peer_part, granularity)
