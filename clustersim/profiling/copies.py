"""On how many tensors a layer works in turn, so that it finds them in memory and not in a cache."""

from __future__ import annotations

import math

_MAX_COPIES = 16


def num_copies(num_bytes: int, cache_bytes: int) -> int:
    """Return on how many tensors a layer must work in turn, so that a cache has none of them when its turn comes.

    Twice the cache's size in all, at most 16 copies: what is smaller than an eighth of the cache stays in
    the last-level cache in a real network too.

    >>> num_copies(50, 100), num_copies(1, 100), num_copies(1000, 100)
    (5, 16, 1)
    """
    if num_bytes > 2 * cache_bytes:
        return 1
    return min(_MAX_COPIES, 1 + math.ceil(2 * cache_bytes / max(num_bytes, 1)))
