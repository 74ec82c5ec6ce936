"""How often Python looks for garbage during a simulation."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 500_000  # more than are freed, before Python looks among them; its own number is 700


def collect_seldom() -> None:
    """Let Python look more seldom for objects that only hold each other, from now on.

    A simulation makes many events, of which nearly all go when nobody refers to them. Looking for the others at
    Python's own pace takes a fifth to a third of the time.
    """
    before = gc.get_threshold()
    if before[0]:  # else it never looks
        gc.set_threshold(max(before[0], _NEW_OBJECTS), *before[1:])


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect seldom; afterwards as often as before, which first looks through all that is new."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
