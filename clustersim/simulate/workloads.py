"""Work that has been worked out, which points of a sweep, jobs and layouts share."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from clustersim.model import Workload

_MOST_WORKLOADS = 64


class Workloads:
    """Iterations' work that has been worked out, for the points of a sweep to share; the oldest go first."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Workload] = {}

    def get(self, key: Hashable, build: Callable[[], Workload]) -> Workload:
        """Return the work known by this key, which is everything it depends on, and build it the first time."""
        if key not in self._known:
            self._known[key] = build()
            if len(self._known) > _MOST_WORKLOADS:
                del self._known[next(iter(self._known))]
        return self._known[key]
