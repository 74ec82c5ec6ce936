"""The messages that are on the wire now, in columns, and when the first of them ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_SAME_INSTANT = 1e-13  # relative: what happens closer together than this is one instant
_EMPTY = {"_weight": 0.0, "_rate": 0.0, "_left": 0.0, "_bytes": 0.0, "_since": 0.0, "_end": np.inf, "_active": False}

Solver = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def latest_of_instant(now: float) -> float:
    """Return the latest time that still counts as now; rounding must not split an instant."""
    return now + _SAME_INSTANT * abs(now)


class Flows:
    """Flows over shared links. Time goes forward only, and `share` is called once per instant.

    A flow is a slot in the columns. Only flows that can notice a change are solved again: those that are
    connected, link by link, with a flow that started or ended.
    """

    def __init__(self, capacity: np.ndarray, solver: Solver):
        num_links = len(capacity)
        self.capacity = np.append(capacity, np.inf)  # the last link pads short routes
        self.link_bytes = np.zeros(num_links + 1)
        self._solver = solver
        self._members = np.zeros(num_links + 1, dtype=np.int64)  # flows on each link
        self._touched = np.zeros(num_links + 1, dtype=bool)  # links whose flows changed at this instant
        self._changed = False
        self._free: list[int] = []
        self._routes = np.zeros((0, 1), dtype=np.int64)
        self._weight = self._rate = self._left = self._bytes = self._since = self._end = np.zeros(0)
        self._active = np.zeros(0, dtype=bool)
        self._tags = np.zeros((0, 4), dtype=np.int64)

    def _make_room(self, num_messages: int, longest: int) -> None:
        """See to it that there are enough free slots, and that the longest route fits."""
        padding = len(self.capacity) - 1
        used, width = self._routes.shape
        if longest > width:
            self._routes = np.pad(self._routes, ((0, 0), (0, longest - width)), constant_values=padding)
        extra = num_messages - len(self._free)
        if extra > 0:
            extra = max(extra, used, 64)
            self._routes = np.pad(self._routes, ((0, extra), (0, 0)), constant_values=padding)
            self._tags = np.pad(self._tags, ((0, extra), (0, 0)))
            for name, value in _EMPTY.items():
                setattr(self, name, np.append(getattr(self, name), np.full(extra, value)))
            self._free[:0] = range(used + extra - 1, used - 1, -1)

    def start(
        self, now: float, routes: Sequence[np.ndarray], num_bytes: np.ndarray, weight: np.ndarray, tags: np.ndarray
    ) -> None:
        """Put messages on the wire at this instant; `tags` [num_messages, 4] come back when they end.

        Every route has at least one link and every message more than zero bytes.
        """
        lengths = np.fromiter((len(route) for route in routes), dtype=np.int64, count=len(routes))
        self._make_room(len(routes), int(lengths.max()))
        slots = np.array(self._free[-len(routes) :])
        del self._free[-len(routes) :]
        filled = np.arange(self._routes.shape[1]) < lengths[:, None]
        rows = np.full(filled.shape, len(self.capacity) - 1)
        rows[filled] = np.concatenate(routes)
        self._routes[slots] = rows
        self._weight[slots], self._left[slots], self._bytes[slots] = weight, num_bytes, num_bytes
        self._since[slots], self._rate[slots], self._end[slots] = now, 0.0, np.inf
        self._active[slots] = True
        np.add.at(self._members, rows, 1)
        self._touched[rows] = True
        self._tags[slots] = tags
        self._changed = True

    def due(self, now: float) -> np.ndarray:
        """Take the flows that have ended by this instant off the wire; return their tags [num_ended, 4]."""
        slots = np.flatnonzero(self._end <= latest_of_instant(now))
        if len(slots):
            rows = self._routes[slots]
            np.add.at(self.link_bytes, rows, self._bytes[slots][:, None])
            np.add.at(self._members, rows, -1)
            self._touched[rows] = True
            self._changed = True
            self._active[slots] = False
            self._end[slots] = np.inf
            self._free.extend(slots.tolist())
        return self._tags[slots]

    def next_end(self) -> float:
        """Return when the next flow ends, or infinity. Valid after `share`."""
        return float(self._end.min(initial=np.inf))

    def share(self, now: float) -> None:
        """Give every flow that the changes of this instant can reach its new fair rate."""
        if not self._changed:
            return
        slots = self._reachable()
        if len(slots):
            rates = self._rates(slots)
            moved = rates != self._rate[slots]
            slots, rates = slots[moved], rates[moved]
            left = self._left[slots] - self._rate[slots] * (now - self._since[slots])
            self._left[slots] = left = np.maximum(left, 0.0)
            self._since[slots], self._rate[slots] = now, rates
            self._end[slots] = now + left / rates
        self._touched[:] = False
        self._changed = False

    def _rates(self, slots: np.ndarray) -> np.ndarray:
        """Return fair rates. Flows that share no link with anybody get the smallest capacity on their way."""
        routes = self._routes[slots]
        padding = routes == len(self.capacity) - 1
        if ((self._members[routes] <= 1) | padding).all():
            return np.asarray(self.capacity[routes].min(axis=1))
        return self._solver(routes, self._weight[slots], self.capacity)

    def _reachable(self) -> np.ndarray:
        """Return the flows that are connected, link by link, with a touched link."""
        active = np.flatnonzero(self._active)
        routes = self._routes[active]
        links = self._touched
        reached = np.zeros(len(active), dtype=bool)
        while True:
            links[-1] = False
            more = np.asarray(links[routes].any(axis=1))
            if (more == reached).all():
                return np.asarray(active[reached])
            reached = more
            links[routes[reached]] = True
