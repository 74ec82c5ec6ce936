"""The positions of an image that a tile computes, and those that it needs from other tiles: its halo.

An image of h x w positions over rows x columns of tiles: tile (i, j) has rows from i h // rows on and columns from j w
// columns on, of the output of every layer. For outputs a to b - 1 along an axis a window of k, a step s and a pad p
reads inputs from a s - p up to (b - 1) s - p + k, within the image; transposed, from ceil((a + p - k + 1) / s) up to
floor((b - 1 + p) / s) + 1. The part of it on other tiles is the halo: (k - 1) / 2 on each side if s is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Span = tuple[int, int]
"""Positions along an axis: the first one, and the end."""

TRANSPOSED = "transposed-locally-connected"


class Area(NamedTuple):
    """A rectangle of positions."""

    rows: Span
    columns: Span

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return _length(self.rows), _length(self.columns)

    @property
    def positions(self) -> int:
        return _length(self.rows) * _length(self.columns)


class Tiles(NamedTuple):
    """Tiles in rows and columns, numbered row by row."""

    rows: int
    columns: int

    @property
    def num(self) -> int:
        return self.rows * self.columns

    def own(self, tile: int, size: tuple[int, int]) -> Area:
        """Return the area of a tile in an image of this height and width.

        >>> Tiles(2, 2).own(3, (7, 8))
        Area(rows=(3, 7), columns=(4, 8))
        """
        row, column = divmod(tile, self.columns)
        return Area(_cut(size[0], row, self.rows), _cut(size[1], column, self.columns))

    def shares(self, area: Area, size: tuple[int, int]) -> Iterator[tuple[int, Area]]:
        """Yield the tiles that have a part of an area of an image, with that part."""
        rows, columns = (
            [(number, _meet(span, _cut(of, number, parts))) for number in range(parts)]
            for span, of, parts in zip(area, size, self, strict=True)
        )
        for row, across in rows:
            for column, along in columns:
                if _length(across) and _length(along):
                    yield row * self.columns + column, Area(across, along)


def read_by(op: str, shape: Mapping[str, int], area: Area) -> Area:
    """Return the inputs that a layer with a window reads for an area of its output.

    >>> shape = {"height": 8, "width": 8, "kernel_h": 5, "kernel_w": 5, "pad_h": 2, "pad_w": 2}
    >>> read_by("pooling", {**shape, "stride_h": 1, "stride_w": 1}, Area((4, 8), (0, 4)))
    Area(rows=(2, 8), columns=(0, 6))
    """
    sides = (("height", "kernel_h", "stride_h", "pad_h"), ("width", "kernel_w", "stride_w", "pad_w"))
    spans = []
    for span, (size, kernel, stride, pad) in zip(area, sides, strict=True):
        window = shape[kernel], shape.get(stride, 1), shape.get(pad, 0)
        spans.append(_meet(_reach(span, *window, op == TRANSPOSED), (0, shape[size])))
    return Area(*spans)


def _reach(span: Span, kernel: int, stride: int, pad: int, is_transposed: bool) -> Span:
    first, end = span
    if is_transposed:
        return -((kernel - 1 - first - pad) // stride), (end - 1 + pad) // stride + 1
    return first * stride - pad, (end - 1) * stride - pad + kernel


def _cut(size: int, number: int, parts: int) -> Span:
    return number * size // parts, (number + 1) * size // parts


def _meet(one: Span, other: Span) -> Span:
    first = max(one[0], other[0])
    return first, max(first, min(one[1], other[1]))


def _length(span: Span) -> int:
    return span[1] - span[0]
