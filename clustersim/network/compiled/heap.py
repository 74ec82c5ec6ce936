"""A heap of numbered items by key, in which an item can be moved or removed: four children a node."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from clustersim.network.compiled.jit import part, row, table

ENTRY = np.dtype([("key", np.float64), ("item", np.int64)])
ABSENT = cast(int, np.int64(-1))
INFINITE = np.inf
_FIRST = cast(int, np.int64(0))


HEAP = np.dtype([("size", np.int64), ("entries", np.int64), ("places", np.int64)])
"""How many items there are, and the addresses of the entries and of each item's place among them."""


entry = row("entries", ENTRY)
places_of = table("places", np.dtype(np.int64))


@part
def first_key(heap: Any) -> float:
    """Return the lowest key, or infinity."""
    return entry(heap, 0).key if heap.size > 0 else INFINITE


@part
def is_in(heap: Any, item: int) -> bool:
    return places_of(heap)[item] != ABSENT


@part
def clear(heap: Any) -> None:
    """Remove all items."""
    while heap.size > 0:
        heap.size -= 1
        places_of(heap)[entry(heap, heap.size).item] = ABSENT


@part
def put(heap: Any, item: int, key: float) -> None:
    """Add an item, or move it to another key."""
    index = places_of(heap)[item]
    if index == ABSENT:
        index = heap.size
        heap.size += 1
        _rise(heap, index, key, item)
    elif key < entry(heap, index).key:
        _rise(heap, index, key, item)
    else:
        _sink(heap, index, key, item)


@part
def take(heap: Any) -> int:
    """Remove the item with the lowest key and return it; there must be one."""
    places, item = places_of(heap), entry(heap, 0).item
    places[item] = ABSENT
    heap.size -= 1
    if heap.size > 0:
        last = entry(heap, heap.size)
        _sink(heap, _FIRST, last.key, last.item)
    return item


@part
def remove(heap: Any, item: int) -> None:
    """Remove an item that is in the heap."""
    index = places_of(heap)[item]
    places_of(heap)[item] = ABSENT
    heap.size -= 1
    size = heap.size
    if index == size:
        return
    key, last = entry(heap, size).key, entry(heap, size).item
    if index > 0 and key < entry(heap, (index - 1) >> 2).key:
        _rise(heap, index, key, last)
    else:
        _sink(heap, index, key, last)


@part
def _rise(heap: Any, index: int, key: float, item: int) -> None:
    places = places_of(heap)
    while index > 0:
        parent = (index - 1) >> 2
        if entry(heap, parent).key <= key:
            break
        entry(heap, index).key = entry(heap, parent).key
        entry(heap, index).item = entry(heap, parent).item
        places[entry(heap, index).item] = index
        index = parent
    entry(heap, index).key = key
    entry(heap, index).item = item
    places[item] = index


@part
def _sink(heap: Any, index: int, key: float, item: int) -> None:
    places, size = places_of(heap), heap.size
    while True:
        child = 4 * index + 1
        if child >= size:
            break
        lowest, lowest_key = child, entry(heap, child).key
        for other in range(child + 1, min(child + 4, size)):
            if entry(heap, other).key < lowest_key:
                lowest, lowest_key = other, entry(heap, other).key
        if lowest_key >= key:
            break
        entry(heap, index).key = lowest_key
        entry(heap, index).item = entry(heap, lowest).item
        places[entry(heap, index).item] = index
        index = lowest
    entry(heap, index).key = key
    entry(heap, index).item = item
    places[item] = index
