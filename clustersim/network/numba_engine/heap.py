"""A heap of numbered items by key, in which an item can be moved or removed; of equal keys, first come first served."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from clustersim.network.numba_engine.jit import part, row, table

ENTRY = np.dtype([("key", np.float64), ("number", np.int64), ("item", np.int64)])
HEAP = np.dtype([("size", np.int64), ("num_put", np.int64), ("entries", np.int64), ("places", np.int64)])
"""The numbers of items in it and put so far, and the addresses of the entries and of each item's place in them."""

ABSENT = cast(int, np.int64(-1))
INFINITE = np.inf
_FIRST = cast(int, np.int64(0))
_LATE = cast(int, np.int64(2**62))

entry = row("entries", ENTRY)
places_of = table("places", np.dtype(np.int64))


@part
def first_key(heap: Any) -> float:
    """Return the lowest key, or infinity."""
    return entry(heap, 0).key if heap.size > 0 else INFINITE


@part
def has_key(heap: Any, item: int, key: float) -> bool:
    """Return whether an item is in the heap with this key."""
    place = places_of(heap)[item]
    return place != ABSENT and entry(heap, place).key == key


@part
def put(heap: Any, item: int, key: float) -> None:
    """Add an item, or move it to a key, behind all that have the same."""
    place = places_of(heap)[item]
    if place == ABSENT:
        place = heap.size
        heap.size += 1
    heap.num_put += 1
    _settle(heap, place, key, heap.num_put, item)


@part
def put_in_order(heap: Any, item: int, key: float, order: int) -> None:
    """Add an item that is not in the heap, behind all others of the same key, among such items by their order."""
    place = heap.size
    heap.size += 1
    _settle(heap, place, key, _LATE + order, item)


@part
def take(heap: Any) -> int:
    """Remove the item that is first and return it; there must be one."""
    item = entry(heap, 0).item
    _fill(heap, _FIRST)
    places_of(heap)[item] = ABSENT
    return item


@part
def remove(heap: Any, item: int) -> None:
    """Remove an item, if it is in the heap."""
    place = places_of(heap)[item]
    if place != ABSENT:
        _fill(heap, place)
        places_of(heap)[item] = ABSENT


@part
def clear(heap: Any) -> None:
    """Remove all items."""
    while heap.size > 0:
        heap.size -= 1
        places_of(heap)[entry(heap, heap.size).item] = ABSENT


@part
def _fill(heap: Any, place: int) -> None:
    """Move the last entry to this place."""
    heap.size -= 1
    if place < heap.size:
        last = entry(heap, heap.size)
        _settle(heap, place, last.key, last.number, last.item)


@part
def _settle(heap: Any, place: int, key: float, number: int, item: int) -> None:
    """Move an entry up or down from a free place to where it belongs: each has four below it."""
    places, size = places_of(heap), heap.size
    while place > 0 and _is_before(key, number, entry(heap, (place - 1) >> 2)):
        _move(heap, (place - 1) >> 2, place)
        place = (place - 1) >> 2
    while 4 * place + 1 < size:
        first = 4 * place + 1
        for other in range(first + 1, min(first + 4, 4 * place + 5, size)):
            if _is_before(entry(heap, other).key, entry(heap, other).number, entry(heap, first)):
                first = other
        if _is_before(key, number, entry(heap, first)):
            break
        _move(heap, first, place)
        place = first
    free = entry(heap, place)
    free.key, free.number, free.item = key, number, item
    places[item] = place


@part
def _is_before(key: float, number: int, other: Any) -> bool:
    return key < other.key or (key == other.key and number < other.number)


@part
def _move(heap: Any, source: int, place: int) -> None:
    moved, free = entry(heap, source), entry(heap, place)
    free.key, free.number, free.item = moved.key, moved.number, moved.item
    places_of(heap)[moved.item] = place
