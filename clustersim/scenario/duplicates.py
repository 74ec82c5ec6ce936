"""Merges the equal mistakes of several sweep points into one, with the points that have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clustersim.errors import Mistake

Axes = Mapping[str, Any]
"""The setting of a point on each axis: dotted key to value or label."""

_QUANTITY = re.compile(r"\d[\d,.]*(?: ?[kMGTPE]?i?B\b)?")
_REMEDY = re.compile(r"; (?:it fits with|even) parallelism \{[^}]*\}[^;]*")
"""The remedy in a message, which may differ from point to point."""
_SUMMANDS = re.compile(r"(?: \+ [a-z ]+ 0)+")
"""The terms of a sum without their quantities. Points may have different terms: buckets on several GPUs only."""
_MOST_POINTS = 3


def merge_duplicates(found: Sequence[tuple[Axes, Sequence[Mistake]]]) -> list[Mistake]:
    """Return the mistakes of points without duplicates: those that differ only in numbers and remedies are one.

    A mistake that not all points have, or whose numbers differ, names its points.
    """
    groups: dict[tuple[Any, ...], dict[int, Mistake]] = {}
    for number, (_, mistakes) in enumerate(found):
        for each in mistakes:
            alike = _SUMMANDS.sub("", _QUANTITY.sub("0", _REMEDY.sub("", each.message)))
            same = (each.file, each.line, each.column, each.key, alike)
            groups.setdefault(same, {}).setdefault(number, each)
    every = [axes for axes, _ in found]
    return [_merged(group, every) for group in groups.values()]


def _merged(group: Mapping[int, Mistake], every: Sequence[Axes]) -> Mistake:
    """Return the common mistake of points, given by point number, with the points in its message."""
    first = next(iter(group.values()))
    alike = [number for number, each in group.items() if each.message == first.message]
    others = [number for number in group if number not in set(alike)]
    where = at_points(alike, every)
    if others:
        where = f"at {where}; likewise at {at_points(others, every)}"
    elif where and not stands_at_its_value(first, where):
        where = f"at {where}"
    else:
        return first
    return replace(first, message=f"{first.message} ({where})")


def stands_at_its_value(mistake: Mistake, where: str) -> bool:
    """Return whether the mistake's place in the file is the value of the axis, which names the points already."""
    axis = where.partition(" ")[0]
    return mistake.line is not None and " with " not in where and f"{mistake.key}.".startswith(f"{axis}.")


def at_points(numbers: Sequence[int], every: Sequence[Axes]) -> str:
    """Return text that distinguishes some points, given by number, from all others; empty for all points.

    >>> at_points([1, 3], [{"gpus": g, "kind": k} for g in (2, 4) for k in ("ring", "tree")])
    'kind tree'
    >>> at_points([0, 1], [{"gpus": 1}, {"gpus": 2}, {"gpus": 4}])
    'gpus 1 and 2'
    """
    if len(set(numbers)) == len(every):
        return ""
    chosen = [every[number] for number in numbers]
    values = {axis: _values(chosen, axis) for axis in dict.fromkeys(key for axes in chosen for key in axes)}
    distinct = {axis: of for axis, of in values.items() if of != _values(every, axis)}
    if sum(all(axes.get(axis) in of for axis, of in distinct.items()) for axes in every) == len(chosen):
        return " with ".join(f"{axis} {listed(of)}" for axis, of in distinct.items())
    points = [" with ".join(f"{axis} {_text(value)}" for axis, value in axes.items()) for axes in chosen[:_MOST_POINTS]]
    more = len(chosen) - len(points)
    return "; ".join([*points, *([f"{more} more points"] if more else [])])


def _values(points: Sequence[Axes], axis: str) -> list[Any]:
    """Return the settings of points on an axis, each value once; None stands for a point without that axis."""
    values: list[Any] = []
    for axes in points:
        if axes.get(axis) not in values:
            values.append(axes.get(axis))
    return values


def listed(values: Sequence[Any]) -> str:
    """Return values as text.

    >>> listed([1, 2, True])
    '1, 2 and true'
    """
    texts = [_text(value) for value in values]
    return " and ".join([*([", ".join(texts[:-1])] if texts[1:] else []), texts[-1]])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
