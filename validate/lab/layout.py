"""Which hosts and routers a cluster has, which are joined, and the way from host to host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any


@dataclass(frozen=True)
class Layout:
    """Hosts on routers; `dims` has the routers along each dimension of a torus, and () is one router: a star.

    As in clustersim, a torus of one dimension is a ring, routers are numbered with the last dimension fastest, and a
    route goes dimension by dimension, the shorter way round, in the + direction where both are as short.
    """

    num_hosts: int
    dims: tuple[int, ...] = ()

    @classmethod
    def star(cls, num_hosts: int) -> Layout:
        """Return so many hosts on one router."""
        return cls(num_hosts)

    @classmethod
    def torus(cls, *dims: int) -> Layout:
        """Return a torus with a host on every router."""
        return cls(prod(dims), dims)

    @property
    def num_routers(self) -> int:
        return prod(self.dims)

    def router(self, host: int) -> int:
        """Return the router that a host is on."""
        return host if self.dims else 0

    @cached_property
    def cables(self) -> tuple[tuple[int, int], ...]:
        """Pairs of routers that are joined; a ring of two is one cable."""
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
        """Return the routers that a message from host to host passes, in order."""
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
        """Return the same cluster as a scenario of clustersim has it."""
        link = f"{megabits_per_s:g} Mbit/s"
        shape = (
            {"kind": "torus", "dims": list(self.dims)} if self.dims else {"kind": "star", "num_hosts": self.num_hosts}
        )
        return {**shape, "link": link, "sharing": sharing, "host": {"template": "bare", "gpu": STAND_IN}}


STAND_IN = "p100"
"""A host of the lab computes nothing: this sheet is only there because adding needs a memory. It is never the limit."""
