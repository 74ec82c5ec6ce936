"""The arrays of the tables, and how they grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine.heap import ABSENT, ENTRY
from clustersim.network.numba_engine.jit import address_of
from clustersim.network.numba_engine.tables import (
    IN_LATENCY,
    LANE,
    MEMBER,
    NONE,
    NUM_LANES,
    STATE,
    TABLES,
    Growth,
    Pool,
    grown,
)

_HEAPS = ("arrivals", "ends", "pauses", "full")


class Blocks:
    """Rows that are taken and given back in blocks."""

    def __init__(self, kind: np.dtype[Any], growth: Growth):
        self._pool = Pool(kind, growth)
        self._free: dict[int, list[int]] = {}

    @property
    def array(self) -> np.ndarray:
        return self._pool.array

    def take(self, num_rows: int) -> int:
        """Return the first of so many rows, which are zero or hold old values."""
        free = self._free.get(num_rows)
        return free.pop() if free else self._pool.add(np.zeros(num_rows, self._pool.array.dtype))

    def release(self, first: int, num_rows: int) -> None:
        """Give back a block as it was taken."""
        self._free.setdefault(num_rows, []).append(first)


class Memory:
    """The arrays of a state, whose addresses are in its only row."""

    def __init__(self) -> None:
        self.state = np.zeros(1, STATE)
        self._arrays: dict[str, np.ndarray] = {}
        self.set(**{name: np.zeros(0, kind) for name, kind in TABLES.items()})
        lanes = np.zeros(NUM_LANES, LANE)
        lanes["first"] = lanes["last"] = NONE
        lanes["first_s"] = np.inf
        self.set(lanes=lanes)
        self._places = {name: np.zeros(0, np.int64) for name in _HEAPS}
        self._entries = {name: np.zeros(0, ENTRY) for name in _HEAPS}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def set(self, **arrays: np.ndarray) -> None:
        """Replace arrays."""
        for name, array in arrays.items():
            if array is not self._arrays.get(name):
                self._arrays[name] = array
                self.state[name] = address_of(array)

    def reserve(self, name: str, num_rows: int) -> None:
        """Make room in a table."""
        if len(self[name]) < num_rows:
            self.set(**{name: grown(self[name], num_rows)})

    def reserve_heap(self, name: str, num_items: int) -> None:
        """Make room for items 0 to `num_items` - 1 in a heap."""
        before = len(self._places[name])
        if before < num_items:
            self._entries[name] = grown(self._entries[name], num_items)
            self._places[name] = grown(self._places[name], num_items)
            self._places[name][before:] = ABSENT
            heap = self.state[name]
            heap["entries"], heap["places"] = address_of(self._entries[name]), address_of(self._places[name])

    def due_s(self, flow: int) -> float:
        """Return when a flow ends or reaches its links, or infinity."""
        for name in ("arrivals", "ends"):
            place = int(self._places[name][flow])
            if place != ABSENT:
                return float(self._entries[name]["key"][place])
        row = self["flows"][flow]
        return float(row["since_s"]) if row["stage"] == IN_LATENCY else np.inf

    def clear(self) -> None:
        """Remove all messages and pauses."""
        for name in ("arrivals", "ends", "pauses"):
            self.state[name]["size"] = 0
            self._places[name][:] = ABSENT
        self["lanes"]["first"], self["lanes"]["first_s"] = NONE, np.inf
        self["links"]["first"] = self["links"]["last"] = NONE
        self["links"]["num_flows"] = 0
        num_flows = len(self["flows"])
        self["free"][:] = np.arange(num_flows)
        self.state["num_free"] = num_flows

    def reserve_flows(self, num_flows: int, longest: int) -> None:
        """Make room for so many flows, on paths as long as the longest."""
        bits, before = int(self.state["member_bits"][0]), len(self["flows"])
        new_bits, num_flows = max(bits, (longest - 1).bit_length()), max(before, num_flows)
        if new_bits == bits and num_flows == before:
            return
        num_flows = max(num_flows, 2 * before) if num_flows > before else before
        self._move_members(num_flows, new_bits)
        self.reserve("flows", num_flows)
        num_free, new = int(self.state["num_free"][0]), np.arange(num_flows - 1, before - 1, -1)
        self.set(free=np.concatenate([new, self["free"][:num_free], np.zeros(before - num_free, np.int64)]))
        self.state["num_free"] += len(new)
        self.reserve_heap("arrivals", num_flows)
        self.reserve_heap("ends", num_flows)
        for name in ("started", "risen", "changed", "held"):
            self.reserve(name, num_flows)

    def _move_members(self, num_flows: int, new_bits: int) -> None:
        bits, before = int(self.state["member_bits"][0]), self["members"]
        members = np.full(num_flows << new_bits, NONE, MEMBER)
        if new_bits == bits:
            members[: len(before)] = before
            self.set(members=members)
            return
        moved = _renumbered(np.arange(len(before)), bits, new_bits)
        for name in MEMBER.names or ():
            members[name][moved] = _renumbered(before[name], bits, new_bits)
        for name in ("first", "last"):
            self["links"][name] = _renumbered(self["links"][name], bits, new_bits)
        self.set(members=members)
        self.state["member_bits"] = new_bits


def _renumbered(members: np.ndarray, bits: int, new_bits: int) -> np.ndarray:
    """Return the numbers of members where a flow has more of them than before."""
    numbers = members.astype(np.int64)
    flow, place = numbers >> bits, numbers & ((1 << bits) - 1)
    return np.where(numbers < 0, NONE, (flow << new_bits) + place)
