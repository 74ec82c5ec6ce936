"""The orders in which several rings or chains at once go through the ranks.

NCCL calls each a channel: its rings go through all GPUs, and every one leaves a host by another adapter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.errors import InputError

Orders = Sequence[Sequence[int]] | np.ndarray
"""The ranks in the order of each ring [num_rings, num_ranks]."""


def checked_orders(num_ranks: int, rings: Orders) -> np.ndarray:
    """Return orders of ranks as a table [num_rings, num_ranks]; refuse what does not have each rank once in each."""
    everybody = list(range(num_ranks))
    for order in rings:
        if sorted(order) != everybody:
            raise InputError(
                f"each of the rings must have every rank from 0 to {num_ranks - 1} once (got {list(order)[:20]})",
                got=str(list(order)[:20]),
            )
    if not len(rings):
        raise InputError("there must be at least one of the rings (got none)", got="none")
    return np.asarray(rings, dtype=np.int64)
