"""Interpolation of measured times on a rectangular grid of shapes, in log space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FULL = 0.2
"""A value of an axis belongs to the grid if it has this share of the points of the value that has the most.

Some tables have a few shapes beside their grid, which would leave it empty between them. Where memory ends, rows
become fewer.
"""


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Logarithms of seconds [len(axes[0]), len(axes[1]), ...], with NaN where nothing was measured.

    Between points, the logarithm of the time is linear in the logarithm of each size, on the smallest box of measured
    neighbours (multilinear). Since the FLOP of a product are linear in these logarithms, the logarithm of its rate is
    interpolated in the same way. Powers of the sizes are met exactly.

    >>> sizes = np.array([1.0, 2.0, 4.0])
    >>> grid = TimeGrid((sizes, sizes), np.log(np.outer(sizes, sizes**2)))
    >>> bool(np.isclose(grid.seconds(np.array([[3.0, 3.0]]))[0], 27.0))
    True
    """

    axes: tuple[np.ndarray, ...]
    log_seconds: np.ndarray

    @classmethod
    def of_rows(cls, sizes: Sequence[np.ndarray], seconds: np.ndarray, least: float = _FULL) -> TimeGrid:
        """Return the grid of a table's rows: sizes [num_axes][num_rows] and seconds [num_rows].

        A point that was measured several times has the median. Sizes with fewer than the share `least` of the points
        of the one with most are left out.
        """
        wanted = np.ones(len(seconds), dtype=bool)
        axes = []
        for column in sizes:
            values, counts = np.unique(column, return_counts=True)
            kept = values[counts >= least * counts.max()] if len(values) > 1 else values
            wanted &= np.isin(column, kept)
            axes.append(kept.astype(float))
        shape = tuple(len(axis) for axis in axes)
        at = np.ravel_multi_index(
            tuple(np.searchsorted(axis, column[wanted]) for axis, column in zip(axes, sizes, strict=True)), shape
        )
        table = np.full(int(np.prod(shape)), np.nan)
        order = np.lexsort((seconds[wanted], at))
        places, starts, counts = np.unique(at[order], return_index=True, return_counts=True)
        ascending = np.log(seconds[wanted][order])
        table[places] = (ascending[starts + (counts - 1) // 2] + ascending[starts + counts // 2]) / 2
        return cls(tuple(axes), table.reshape(shape))

    @property
    def num_points(self) -> int:
        return int(np.isfinite(self.log_seconds).sum())

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Return the nearest points within the ranges of the axes, [num_points, num_axes]."""
        return np.column_stack([np.clip(points[:, number], axis[0], axis[-1]) for number, axis in enumerate(self.axes)])

    def seconds(self, points: np.ndarray) -> np.ndarray:
        """Return interpolated seconds of sizes [num_points, num_axes]; NaN outside, and where a neighbour is missing.

        There is no extrapolation.
        """
        total, inside = np.zeros(len(points)), np.ones(len(points), dtype=bool)
        lower, weights = [], []
        for number, axis in enumerate(self.axes):
            size = points[:, number]
            inside &= (size >= axis[0]) & (size <= axis[-1])
            low = np.clip(np.searchsorted(axis, size, side="right") - 1, 0, max(len(axis) - 2, 0))
            high = np.minimum(low + 1, len(axis) - 1)
            width = np.where(high > low, np.log(axis[high] / axis[low]), 1.0)
            lower.append(low)
            weights.append(np.log(np.clip(size, axis[0], axis[-1]) / axis[low]) / width)
        for corner in np.ndindex(*(2,) * len(self.axes)):
            at = tuple(
                np.minimum(low + up, len(axis) - 1) for low, up, axis in zip(lower, corner, self.axes, strict=True)
            )
            share = np.prod(
                [weight if up else 1.0 - weight for weight, up in zip(weights, corner, strict=True)], axis=0
            )
            total += np.where(share > 0, share * self.log_seconds[at], 0.0)
        return np.where(inside, np.exp(total), np.nan)

    def without(self, axis: int, index: int) -> TimeGrid:
        """Return the grid without one value of an axis, and without values beside it that differ by at most 1.

        Tables have sizes such as 4096 and 4097, one of which would give away the other.
        """
        values = self.axes[axis]
        away = np.abs(values - values[index]) > (1.0 if values[index] > 4 else 0.0)
        kept = [each if number != axis else each[away] for number, each in enumerate(self.axes)]
        return TimeGrid(tuple(kept), np.compress(away, self.log_seconds, axis=axis))

    def at(self, axis: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sizes [num_points, num_axes] and seconds [num_points] that were measured at one value."""
        plane = np.take(self.log_seconds, index, axis=axis)
        axes = [each if number != axis else each[[index]] for number, each in enumerate(self.axes)]
        points = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
        known = np.isfinite(plane.ravel())
        return points[known], np.exp(plane.ravel()[known])
