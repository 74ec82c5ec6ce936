"""Makes Python's garbage collector run less often during a command or a simulation."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLD = 500_000
"""New objects, minus freed ones, before Python runs a collection. Python's own default is 700."""


def collect_rarely() -> None:
    """Raise the threshold of Python's garbage collector for the rest of the process.

    A simulation makes many events, and reference counting frees nearly all of them; modules and programs consist of
    objects that stay. At Python's own threshold, the search for cycles of references takes a fifth to a third of the
    time.
    """
    before = gc.get_threshold()
    if before[0]:  # 0 means that collection is off
        gc.set_threshold(max(before[0], _THRESHOLD), *before[1:])


@contextmanager
def rare_collections() -> Iterator[None]:
    """Raise the threshold inside the block and restore it afterwards."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
