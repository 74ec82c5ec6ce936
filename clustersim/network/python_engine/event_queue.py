"""Queues of events by time, first come first served where times are equal."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from clustersim.network.flow import INFINITE, Flow

Item = TypeVar("Item")
_SPARE_ENTRIES = 256  # outdated endings that are kept before a clean-up


class EventQueue(Generic[Item]):
    """Items by time. Those of one time share one entry of the heap, so that ranks in lock-step cost little.

    >>> queue = EventQueue()
    >>> for time_s, item in [(2.0, "b"), (1.0, "a"), (2.0, "c")]:
    ...     queue.add(time_s, item)
    >>> queue.times[0], queue.take(2.0), queue.times
    (1.0, ['a', 'b', 'c'], [])
    """

    __slots__ = ("_items", "times")

    def __init__(self) -> None:
        self.times: list[float] = []  # a heap: the first is the earliest
        self._items: dict[float, list[Item]] = {}

    def add(self, time_s: float, item: Item) -> None:
        """Add an item at a time."""
        together = self._items.get(time_s)
        if together is None:
            self._items[time_s] = [item]
            heappush(self.times, time_s)
        else:
            together.append(item)

    def take(self, latest_s: float) -> list[Item]:
        """Remove and return what is due by then: at least one item must be."""
        times = self.times
        due = self._items.pop(heappop(times))
        while times and times[0] <= latest_s:
            due += self._items.pop(heappop(times))
        return due

    def remove(self, time_s: float, item: Item) -> None:
        """Remove an item at a time."""
        together = self._items[time_s]
        together.remove(item)
        if not together:
            del self._items[time_s]
            self.times.remove(time_s)
            heapify(self.times)

    def items(self) -> Iterator[tuple[float, Item]]:
        """Yield the items with their times, in no order."""
        return ((time_s, item) for time_s, together in self._items.items() for item in together)


class FlowEndings:
    """When each flow ends at its present rate. A new rate makes a new entry; outdated ones are skipped on reading."""

    __slots__ = ("_flows", "_num_entries", "_num_flows", "times")

    def __init__(self) -> None:
        self.times: list[float] = []  # a heap, in which outdated times may come first
        self._flows: dict[float, list[Flow]] = {}
        self._num_entries = 0
        self._num_flows = 0

    def expect(self, flow: Flow, time_s: float) -> None:
        """Set when a flow will end, in place of its time before; infinity means never."""
        if time_s == INFINITE:
            self.forget(flow)
            return
        if flow.end_s == INFINITE:
            self._num_flows += 1
        flow.end_s = time_s
        self._num_entries += 1
        together = self._flows.get(time_s)
        if together is None:
            self._flows[time_s] = [flow]
            heappush(self.times, time_s)
        else:
            together.append(flow)
        if self._num_entries > 2 * self._num_flows + _SPARE_ENTRIES:
            self._clean()

    def forget(self, flow: Flow) -> None:
        """Note that a flow will not end at its present rate."""
        if flow.end_s < INFINITE:
            flow.end_s = INFINITE
            self._num_flows -= 1

    def take(self, latest_s: float) -> list[Flow]:
        """Remove and return the flows that end by then; their `end_s` is infinite again."""
        times = self.times
        due: list[Flow] = []
        while times and times[0] <= latest_s:
            time_s = heappop(times)
            together = self._flows.pop(time_s)
            self._num_entries -= len(together)
            for flow in together:
                if flow.end_s == time_s:
                    flow.end_s = INFINITE
                    due.append(flow)
        self._num_flows -= len(due)
        return due

    def next_s(self) -> float:
        """Return the earliest end of a flow, or infinity."""
        times = self.times
        while times:
            time_s = times[0]
            together = self._flows[time_s]
            for flow in together:
                if flow.end_s == time_s:
                    return time_s
            heappop(times)
            del self._flows[time_s]
            self._num_entries -= len(together)
        return INFINITE

    def _clean(self) -> None:
        """Drop the outdated entries; what is left keeps its order."""
        valid: dict[float, list[Flow]] = {}
        for time_s, together in self._flows.items():
            flows = list(dict.fromkeys(flow for flow in together if flow.end_s == time_s))
            if flows:
                valid[time_s] = flows
        self._flows = valid
        self.times[:] = valid  # in place: `play_instant` may hold this list
        heapify(self.times)
        self._num_entries = self._num_flows

    def items(self) -> Iterator[tuple[float, Flow]]:
        """Yield every flow once, with its end, in no order of time."""
        self._clean()
        return ((time_s, flow) for time_s, together in self._flows.items() for flow in together)
