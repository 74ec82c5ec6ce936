"""A clock inside a network: its processes are simulated with the messages, ahead of SimPy's own clock."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

import simpy
from simpy.events import EventPriority, ProcessGenerator

from clustersim.network.flow import INFINITE

_NORMAL, _URGENT = EventPriority(1), EventPriority(0)
_NONE_ANY_MORE: Any = None  # callbacks of an event that has fired, as in SimPy


class ClockNetwork(Protocol):
    """What the clock needs of its network."""

    env: simpy.Environment

    @property
    def now_s(self) -> float: ...
    def before_acting(self) -> None: ...
    def after_acting(self) -> None: ...
    def fire(self, event: simpy.Event, value: Any) -> None: ...


class InnerClock(simpy.Environment):
    """An environment like SimPy's, owned by a network, for processes that wait only for messages and times.

    A process here needs no event on the outer clock, which is the network's environment. It is simulated ahead of that,
    as messages are. Events of one time come in SimPy's order, and before the network. Nothing here may wait for an
    event of the outer clock. `outside` gives an event there for an event here.
    """

    def __init__(self, network: ClockNetwork):
        super().__init__(0.0)
        self.is_playing = False
        self.due: deque[simpy.Event] = deque()  # what is due now, first come first served
        self.times: list[tuple[float, int, simpy.Event]] = []  # a heap of what is due later
        self._urgent: deque[simpy.Event] = deque()  # what comes before all that is due
        self._numbers = count()
        self._network = network

    @property
    def now(self) -> float:
        """The time of the network while it runs, else that of the outer clock."""
        return self._now if self.is_playing else self._network.env.now

    @property
    def next_s(self) -> float:
        """When the next event is due, or infinity; what is due now is due at minus infinity."""
        if self.due:
            return -INFINITE
        return self.times[0][0] if self.times else INFINITE

    def schedule(self, event: simpy.Event, priority: EventPriority = _NORMAL, delay: float = 0) -> None:
        """Let an event fire so much later."""
        if self.is_playing:
            if delay or priority != _NORMAL:
                self._put(event, priority, delay)
            else:
                self.due.append(event)
        else:
            self._network.before_acting()
            self._now = self._network.now_s
            self._put(event, _NORMAL, delay)
            self._network.after_acting()

    def process(self, generator: ProcessGenerator) -> simpy.Process:
        """Start a process here. SimPy binds this method and the two below anew whenever they are called."""
        return simpy.Process(self, generator)

    def event(self) -> simpy.Event:
        """Return an event that another process or the network will fire."""
        return simpy.Event(self)

    def timeout(self, delay: float = 0, value: Any | None = None) -> simpy.Timeout:
        """Return an event that fires so many seconds later."""
        return simpy.Timeout(self, delay, value)

    def fire(self, event: simpy.Event, value: Any) -> None:
        """Fire an event of the network that processes here wait for."""
        event._ok, event._value = True, value
        self.due.append(event)

    def outside(self, event: simpy.Event) -> simpy.Event:
        """Return an event on the outer clock that fires when one here does."""
        outer = self._network.env.event()
        event.callbacks.append(lambda here: self._network.fire(outer, here.value))
        return outer

    def play(self, now_s: float) -> None:
        """Fire everything that is due by now, and what follows from it at once."""
        times, urgent, due = self.times, self._urgent, self.due
        while times and times[0][0] <= now_s:
            due.append(heappop(times)[2])
        self._now, self.is_playing = now_s, True
        try:
            while urgent or due:
                event = urgent.popleft() if urgent else due.popleft()
                callbacks, event.callbacks = event.callbacks, _NONE_ANY_MORE
                for callback in callbacks:
                    callback(event)
                if not event._ok and not hasattr(event, "_defused"):
                    raise event._value
        finally:
            self.is_playing = False

    def _put(self, event: simpy.Event, priority: EventPriority, delay: float) -> None:
        time_s = self._now + delay
        if time_s > self._now:
            heappush(self.times, (time_s, next(self._numbers), event))
        elif priority == _URGENT:
            self._urgent.append(event)
        else:
            self.due.append(event)
