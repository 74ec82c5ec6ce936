"""A heap of numbered items by key, in which an item can be moved or removed: four children a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.compiled.jit import part, table

ENTRY = np.dtype([("key", np.float64), ("item", np.int64)])
ABSENT = -1
INFINITE = np.inf


HEAP = np.dtype([("size", np.int64), ("entries", np.int64), ("places", np.int64)])
"""How many items there are, and the addresses of the entries and of each item's place among them."""


entries_of = table("entries", ENTRY)
places_of = table("places", np.dtype(np.int64))


@part
def first_key(heap: Any) -> float:
    """Return the lowest key, or infinity."""
    return entries_of(heap)[0].key if heap.size > 0 else INFINITE


@part
def is_in(heap: Any, item: int) -> bool:
    return places_of(heap)[item] != ABSENT


@part
def clear(heap: Any) -> None:
    """Remove all items."""
    while heap.size > 0:
        heap.size -= 1
        places_of(heap)[entries_of(heap)[heap.size].item] = ABSENT


@part
def put(heap: Any, item: int, key: float) -> None:
    """Add an item, or move it to another key."""
    index = places_of(heap)[item]
    if index == ABSENT:
        index = heap.size
        heap.size += 1
        _rise(heap, index, key, item)
    elif key < entries_of(heap)[index].key:
        _rise(heap, index, key, item)
    else:
        _sink(heap, index, key, item)


@part
def take(heap: Any) -> int:
    """Remove the item with the lowest key and return it; there must be one."""
    item = entries_of(heap)[0].item
    remove(heap, item)
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
    key, last = entries_of(heap)[size].key, entries_of(heap)[size].item
    if index > 0 and key < entries_of(heap)[(index - 1) >> 2].key:
        _rise(heap, index, key, last)
    else:
        _sink(heap, index, key, last)


@part
def _rise(heap: Any, index: int, key: float, item: int) -> None:
    entries, places = entries_of(heap), places_of(heap)
    while index > 0:
        parent = (index - 1) >> 2
        if entries[parent].key <= key:
            break
        entries[index].key = entries[parent].key
        entries[index].item = entries[parent].item
        places[entries[index].item] = index
        index = parent
    entries[index].key = key
    entries[index].item = item
    places[item] = index


@part
def _sink(heap: Any, index: int, key: float, item: int) -> None:
    entries, places, size = entries_of(heap), places_of(heap), heap.size
    while True:
        child = 4 * index + 1
        if child >= size:
            break
        lowest, lowest_key = child, entries[child].key
        for other in range(child + 1, min(child + 4, size)):
            if entries[other].key < lowest_key:
                lowest, lowest_key = other, entries[other].key
        if lowest_key >= key:
            break
        entries[index].key = lowest_key
        entries[index].item = entries[lowest].item
        places[entries[index].item] = index
        index = lowest
    entries[index].key = key
    entries[index].item = item
    places[item] = index
