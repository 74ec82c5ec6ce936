"""Random streams that are keyed by name."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random stream of a seed and a name, the same in any process and any order.

    One more rank or one more stream does not change the numbers of other streams.

    >>> bool(stream(1, "stragglers", 3).random() == stream(1, "stragglers", 3).random())
    True
    """
    key = "/".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int.from_bytes(digest[:16], "big")])))
