"""The hosts, routers and cables of a cluster, and the routes between hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any


@dataclass(frozen=True)
class Layout:
    """Hosts on routers; `dims` are the routers along each dimension of a torus, and () is one router: a star.

    As in clustersim, a torus of one dimension is a ring, routers are numbered with the last dimension fastest, and a
    route goes dimension by dimension in the shorter direction, or in the + direction if both are equally long.
    """

    num_hosts: int
    dims: tuple[int, ...] = ()

    @classmethod
    def star(cls, num_hosts: int) -> Layout:
        """Return `num_hosts` hosts on one router."""
        return cls(num_hosts)

    @classmethod
    def torus(cls, *dims: int) -> Layout:
        """Return a torus with a host on every router."""
        return cls(prod(dims), dims)

    @property
    def num_routers(self) -> int:
        return prod(self.dims)

    def router(self, host: int) -> int:
        """Return the router of a host."""
        return host if self.dims else 0

    @cached_property
    def cables(self) -> tuple[tuple[int, int], ...]:
        """Pairs of connected routers; a ring of two has one cable."""
        return tuple(sorted({(min(pair), max(pair)) for pair in self._neighbours() if pair[0] != pair[1]}))

    def _neighbours(self) -> list[tuple[int, int]]:
        places = list(product(*(range(size) for size in self.dims)))
        number = {place: router for router, place in enumerate(places)}
        return [
            (number[place], number[(*place[:axis], (place[axis] + 1) % size, *place[axis + 1 :])])
            for place in places
            for axis, size in enumerate(self.dims)
        ]

    def routers_between(self, src: int, dst: int) -> list[int]:
        """Return the routers on the route from host to host, in order."""
        here, there = self._place(self.router(src)), self._place(self.router(dst))
        passed = [self.router(src)]
        for axis, size in enumerate(self.dims):
            forward = (there[axis] - here[axis]) % size
            step = 1 if forward <= size - forward else -1
            while here[axis] != there[axis]:
                here[axis] = (here[axis] + step) % size
                passed.append(self._number(here))
        return passed

    def _place(self, router: int) -> list[int]:
        place = []
        for size in reversed(self.dims):
            router, along = divmod(router, size)
            place.append(along)
        return place[::-1]

    def _number(self, place: Sequence[int]) -> int:
        number = 0
        for along, size in zip(place, self.dims, strict=True):
            number = number * size + along
        return number

    def topology(self, megabits_per_s: float, sharing: str = "max-min") -> dict[str, Any]:
        """Return the same cluster as the topology of a scenario."""
        link = f"{megabits_per_s:g} Mbit/s"
        shape = (
            {"kind": "torus", "dims": list(self.dims)} if self.dims else {"kind": "star", "num_hosts": self.num_hosts}
        )
        return {**shape, "link": link, "sharing": sharing, "host": {"template": "bare", "gpu": STAND_IN}}


STAND_IN = "p100"
"""The GPU sheet of a host of the lab, which computes nothing: it only gives a memory rate for adding, never a limit."""
