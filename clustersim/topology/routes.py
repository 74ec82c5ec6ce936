"""Many routes at once, in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

_MAX_CACHED_LINKS = 1_000_000  # of cached routes


class Routes(NamedTuple):
    """The routes of n pairs, one after another: pair i takes `links[first[i]]` to `links[first[i + 1] - 1]`.

    Both columns are int64, `first` [n + 1] and `links` [number of links of all routes together].
    """

    first: np.ndarray
    links: np.ndarray

    @classmethod
    def of_lengths(cls, lengths: np.ndarray, links: np.ndarray) -> Routes:
        """Return routes with these numbers of links [n]."""
        first = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=first[1:])
        return cls(first, links)

    @classmethod
    def of_rows(cls, links: np.ndarray, used: np.ndarray) -> Routes:
        """Return the routes whose links are those of their row [n, most] that are `used` [n, most]."""
        return cls.of_lengths(np.count_nonzero(used, axis=1), links[used])

    @classmethod
    def one_by_one(cls, routes: Iterable[Sequence[int] | np.ndarray]) -> Routes:
        """Return routes from a list of routes.

        >>> Routes.one_by_one([[7, 8], [], [9]]).first.tolist()
        [0, 2, 2, 3]
        """
        columns = [np.asarray(route, dtype=np.int64) for route in routes]
        lengths = np.array([len(column) for column in columns], dtype=np.int64)
        return cls.of_lengths(lengths, np.concatenate([*columns, np.empty(0, dtype=np.int64)]))

    @classmethod
    def empty(cls, num_pairs: int) -> Routes:
        """Return routes without links."""
        return cls(np.zeros(num_pairs + 1, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def join(cls, num_pairs: int, parts: Sequence[Routes]) -> Routes:
        """Return for each pair its route in the first part, then its route in the second, and so on.

        >>> Routes.join(2, [Routes.one_by_one([[1], [2]]), Routes.one_by_one([[3, 4], []])]).links.tolist()
        [1, 3, 4, 2]
        """
        parts = [part for part in parts if len(part.links)]
        if len(parts) < 2:
            return parts[0] if parts else cls.empty(num_pairs)
        lengths = [part.lengths for part in parts]
        joined = cls.of_lengths(np.sum(lengths, axis=0), np.empty(sum(len(p.links) for p in parts), dtype=np.int64))
        start = joined.first[:-1].copy()
        for part, length in zip(parts, lengths, strict=True):
            joined.links[np.repeat(start - part.first[:-1], length) + np.arange(len(part.links))] = part.links
            start += length
        return joined

    @property
    def lengths(self) -> np.ndarray:
        """[n] the number of links of each route."""
        return np.diff(self.first)

    def take(self, which: np.ndarray) -> Routes:
        """Return these of the routes [n], in this order; one may be taken several times."""
        lengths = self.lengths[which]
        taken = Routes.of_lengths(lengths, np.empty(0, dtype=np.int64))
        places = np.repeat(self.first[which] - taken.first[:-1], lengths) + np.arange(taken.first[-1])
        return taken._replace(links=self.links[places])

    def shifted(self, by: np.ndarray) -> Routes:
        """Return the routes with a number [n] added to every link of each."""
        return self._replace(links=self.links + np.repeat(by, self.lengths))

    def spread(self, pairs: np.ndarray, num_pairs: int) -> Routes:
        """Return the routes as those of these pairs [n], increasing, among `num_pairs`; the others are empty."""
        if len(pairs) == num_pairs:
            return self
        lengths = np.zeros(num_pairs, dtype=np.int64)
        lengths[pairs] = self.lengths
        return Routes.of_lengths(lengths, self.links)


class RouteCache:
    """Routes of many pairs, cached, since collectives of other sizes need the same ones again.

    They are read-only. If the cache is full, it is cleared.
    """

    def __init__(self, find: Callable[[np.ndarray, np.ndarray], Routes]):
        self._find = find
        self._known: dict[tuple[bytes, bytes], Routes] = {}
        self._num_links = 0

    def get(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes from nodes `src` [n] to nodes `dst` [n]."""
        key = src.tobytes(), dst.tobytes()
        routes = self._known.get(key)
        if routes is None:
            routes = self._find(src, dst)
            routes.first.setflags(write=False)
            routes.links.setflags(write=False)
            self._num_links += len(routes.links) + len(src)
            if self._num_links > _MAX_CACHED_LINKS:
                self._known.clear()
                self._num_links = len(routes.links) + len(src)
            self._known[key] = routes
        return routes
