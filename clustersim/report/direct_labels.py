"""Places for the names of curves beside them, where there is room: nearer to their own curve than to any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_AWAY_PX, _LINE_PX, _LETTER_PX = 9.0, 15.0, 6.6
"""Distance of a name from its point, height of a line of text, and mean width of a letter."""

_ROOM_PX, _NEARER_PX = 12.0, 6.0
"""Least distance of a name from all other curves and names, and how much nearer its own curve is."""

_STEP_PX = 5.0


class LabelPlace(NamedTuple):
    """Where a name is: the number of a point of its curve, and on which side of it."""

    point: int
    is_above: bool
    is_left: bool


def label_places(
    curves: Sequence[np.ndarray],
    names: Sequence[str],
    size_px: tuple[float, float],
    taken: Sequence[np.ndarray] = (),
) -> list[LabelPlace | None]:
    """Return the place of the name of each curve; None where there is no room.

    `curves` are points [num_points, 2] in px, to the right and downwards, in a plot of this width and height. `taken`
    are further points to keep away from.
    """
    dense = [_dense(curve) for curve in curves]
    boxes: list[np.ndarray] = []
    found: list[LabelPlace | None] = []
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        others = [each for each in (*dense[:number], *dense[number + 1 :], *taken, *map(_outline, boxes)) if len(each)]
        avoided = np.concatenate(others) if others else np.full((1, 2), np.inf)
        best = max(_candidates(curve, dense[number], name, size_px, avoided), key=lambda each: each[0], default=None)
        found.append(None if best is None else best[1])
        boxes += [] if best is None else [best[2]]
    return found


def _candidates(
    curve: np.ndarray, own: np.ndarray, name: str, size_px: tuple[float, float], avoided: np.ndarray
) -> Iterator[tuple[float, LabelPlace, np.ndarray]]:
    """Yield places of a name that are free, with their distance from all else and their box."""
    for point in range(0, len(curve), 2):
        for is_above in (True, False):
            place = LabelPlace(point, is_above, is_above == _is_rising(curve))
            box = _box(curve[point], _LETTER_PX * len(name), place)
            if min(box) < 0 or box[2] > size_px[0] or box[3] > size_px[1]:
                continue
            room, near = _distance(avoided, box), _distance(own, box)
            if near > 0 and room >= max(_ROOM_PX, near + _NEARER_PX):
                yield room, place, box


def _is_rising(curve: np.ndarray) -> bool:
    """Return whether a curve goes up on the screen, where y goes down."""
    return bool(len(curve) and curve[-1, 1] < curve[0, 1])


def _box(point: np.ndarray, width_px: float, place: LabelPlace) -> np.ndarray:
    """Return left, top, right and bottom of a name beside a point."""
    left = point[0] - _AWAY_PX - width_px if place.is_left else point[0] + _AWAY_PX
    top = point[1] - _LINE_PX if place.is_above else point[1]
    return np.array([left, top, left + width_px, top + _LINE_PX])


def _distance(points: np.ndarray, box: np.ndarray) -> float:
    """Return the distance of the nearest point from a box; 0 inside."""
    apart = np.maximum(np.maximum(box[:2] - points, points - box[2:]), 0.0)
    return float(np.hypot(apart[:, 0], apart[:, 1]).min())


def _dense(curve: np.ndarray) -> np.ndarray:
    """Return points along a curve, so close that none is far from a name that it crosses."""
    parts = [curve[:1]]
    for one, two in pairwise(curve):
        number = max(1, int(np.hypot(*(two - one)) // _STEP_PX))
        parts.append(one + (two - one) * (np.arange(1, number + 1) / number)[:, None])
    return np.concatenate(parts)


def _outline(box: np.ndarray) -> np.ndarray:
    x, y = np.linspace(box[0], box[2], 12), np.linspace(box[1], box[3], 4)
    return np.array([(one, two) for one in x for two in y])
