"""Recognises a torus in the links between switches, and gives every switch its place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod

from clustersim.interchange.topology_files.fabric_shape import natural

MAX_SWITCHES, MAX_NEIGHBOURS = 10_000, 8
"""Limits of the search: a torus of up to four dimensions, or eight of two switches each."""

Axis = tuple[str, str]
"""The neighbours of a switch ahead and behind in one dimension; the same one twice in a ring of two."""
Neighbours = Mapping[str, Set[str]]


def torus_places(neighbours: Neighbours) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]] | None:
    """Return the lengths of a torus, and the place of each switch; None for another graph.

    The neighbours of one switch are paired in every way, until the pairs give all others a place without contradiction.

    >>> torus_places({"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a", "b"}})
    ((3,), {'a': (0,), 'b': (1,), 'c': (2,)})
    """
    degrees = {len(others) for others in neighbours.values()}
    if len(degrees) != 1 or not 1 <= max(degrees) <= MAX_NEIGHBOURS or len(neighbours) > MAX_SWITCHES:
        return None
    origin = min(neighbours, key=natural)
    for axes in _pairings(sorted(neighbours[origin], key=natural)):
        frames = _frames(neighbours, origin, axes)
        found = None if frames is None else _places(frames, origin)
        if found is not None:
            return found
    return None


def _pairings(names: Sequence[str]) -> Iterator[tuple[Axis, ...]]:
    """Yield the ways to make dimensions of neighbours: two of a ring, or one of a ring of two."""
    if not names:
        yield ()
        return
    first, *others = names
    for number, other in enumerate(others):
        for rest in _pairings(others[:number] + others[number + 1 :]):
            yield ((first, other), *rest)
    for rest in _pairings(others):
        yield ((first, first), *rest)


def _frames(neighbours: Neighbours, origin: str, axes: tuple[Axis, ...]) -> dict[str, tuple[Axis, ...]] | None:
    """Return the neighbours of every switch by dimension, as they follow from those of one; None at a contradiction."""
    frames = {origin: axes}
    waiting = [origin]
    while waiting:
        here = waiting.pop()
        for number, axis in enumerate(frames[here]):
            for ahead in dict.fromkeys(axis):
                frame = _next_frame(neighbours, here, frames[here], number, ahead)
                if frame is None or frames.get(ahead, frame) != frame:
                    return None
                if ahead not in frames:
                    frames[ahead] = frame
                    waiting.append(ahead)
    return frames if len(frames) == len(neighbours) else None


def _next_frame(
    neighbours: Neighbours, here: str, frame: tuple[Axis, ...], number: int, ahead: str
) -> tuple[Axis, ...] | None:
    """Return the frame of the neighbour `ahead` of `here` in a dimension.

    In another dimension its neighbour closes a square with `here` and the neighbour of `here`. The one that is left is
    further ahead.
    """
    found: list[Axis | None] = []
    used = {here}
    for other, axis in enumerate(frame):
        if other == number:
            found.append(None)
            continue
        corners = [(neighbours[ahead] & neighbours[side]) - {here} for side in axis]
        if any(len(corner) != 1 for corner in corners):
            return None
        one, two = (next(iter(corner)) for corner in corners)
        used |= {one, two}
        found.append((one, two))
    left = neighbours[ahead] - used
    first, second = frame[number]
    if first == second:
        found[number] = None if left else (here, here)
    elif len(left) == 1:
        far = next(iter(left))
        found[number] = (far, here) if ahead == first else (here, far)
    complete = tuple(axis for axis in found if axis is not None)
    return complete if len(complete) == len(frame) else None


def _places(
    frames: Mapping[str, tuple[Axis, ...]], origin: str
) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]] | None:
    """Return the lengths and places, the dimension of the origin's first neighbour last."""
    lengths = []
    for number in range(len(frames[origin])):
        here, length = frames[origin][number][0], 1
        while here != origin:
            here, length = frames[here][number][0], length + 1
        lengths.append(length)
    if prod(lengths) != len(frames):
        return None
    places = {origin: tuple(0 for _ in lengths)}
    waiting = [origin]
    while waiting:
        here = waiting.pop()
        for number, (ahead, _) in enumerate(frames[here]):
            place = list(places[here])
            place[number] = (place[number] + 1) % lengths[number]
            if ahead not in places:
                places[ahead] = tuple(place)
                waiting.append(ahead)
            elif places[ahead] != tuple(place):
                return None
    if len(set(places.values())) != len(frames):
        return None
    return tuple(reversed(lengths)), {name: tuple(reversed(place)) for name, place in places.items()}
