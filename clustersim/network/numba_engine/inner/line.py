"""A first-in, first-out queue of numbers."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine.inner import tables
from clustersim.network.numba_engine.jit import part


@part
def join(line: Any, process: int) -> None:
    """Add a process at the end; there is room for all that can be in it."""
    tables.places(line)[(line.first + line.size) & line.mask] = process
    line.size += 1


@part
def leave(line: Any) -> int:
    """Remove the first process and return it; there must be one."""
    process = tables.places(line)[line.first & line.mask]
    line.first += 1
    line.size -= 1
    return process
