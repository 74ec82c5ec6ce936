"""How many pieces a pipelined collective cuts its buffer into."""

from __future__ import annotations

import math

PIECE_BYTES = 512 * 1024
"""One of the 8 slots of NCCL's 4 MiB buffer for large messages (`NCCL_STEPS`, `NCCL_BUFFSIZE`)."""

PIECES_PER_HOP = 8


def default_num_chunks(num_bytes: float, num_hops: int, piece_bytes: float = PIECE_BYTES) -> int:
    """Return the pieces that a buffer is cut into to flow through `num_hops` ranks after one another.

    Pieces of 512 KiB, as NCCL's, or of `piece_bytes`, but not more than 8 a hop: filling the pipeline is then at most
    about an eighth of the whole, and finer pieces would only be more messages.

    >>> default_num_chunks(1e3, 4), default_num_chunks(8e6, 4), default_num_chunks(1e9, 4)
    (1, 16, 32)
    """
    return max(1, min(math.ceil(num_bytes / piece_bytes), PIECES_PER_HOP * num_hops))
