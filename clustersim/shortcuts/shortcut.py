"""Shortcuts that a strategy may opt into."""

from __future__ import annotations

from enum import Enum


class Shortcut(Enum):
    """A shortcut whose condition includes a property of the strategy. The value states that property.

    A strategy class lists in `proved_shortcuts` those that hold for it. Subclasses do not inherit the list.
    """

    IDENTICAL_ITERATIONS = "without randomness, an iteration depends only on when its ranks begin"
    IDENTICAL_REPLICATES = "the strategy itself draws nothing at random"
    VECTORIZED_WORKERS = "a worker's iteration is `Synchronous.iterate`: compute, exchange the own buckets, update"
    FOLDED_LAYOUTS = "beside a layout, ranks exchange gradients only with the ranks that hold the same parameters"
