"""A line of numbers: who comes first is served first."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner import tables
from clustersim.network.numba_engine.jit import part


@part
def join(line: Any, who: int) -> None:
    """Stand at the end; there is room for all who can be there at a time."""
    tables.places(line)[(line.first + line.size) & line.mask] = who
    line.size += 1


@part
def leave(line: Any) -> int:
    """Remove who comes first and return it; there must be somebody."""
    who = tables.places(line)[line.first & line.mask]
    line.first += 1
    line.size -= 1
    return who
