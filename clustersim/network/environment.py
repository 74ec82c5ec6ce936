"""The SimPy clock of networks, which raises an error if the simulation is stuck; and events fired outside its queue."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import simpy
from simpy.core import EmptySchedule, SimTime, StopSimulation
from simpy.events import NORMAL, EventPriority

from clustersim.errors import SimulationError

_MOST_LISTED = 8  # ranks and messages in an error message
_NONE_ANY_MORE: Any = None  # callbacks of an event that has fired, as in SimPy
_FIRST_OF_ALL = EventPriority(-1)
_IN_ORDER = 2  # the first priority after SimPy's own, 0 and 1
AFTER_ALL_OTHERS = EventPriority(2**62)
"""The priority of networks: SimPy runs lower ones first within an instant."""


def moment(env: simpy.Environment, time_s: float, order: int | None = None) -> simpy.Event:
    """Return an event that fires at exactly `time_s`, which is not past.

    A SimPy timeout fires at the sum of now and a delay, which is rounded. Events of one time that have an `order` (at
    least 0) fire in that order, after those that have none and before networks, whenever they were made.

    >>> env, fired = simpy.Environment(), []
    >>> for order in (3, 1):
    ...     moment(env, 0.1, order).callbacks.append(lambda _, order=order: fired.append(order))
    >>> env.run()
    >>> env.now, fired
    (0.1, [1, 3])
    """
    event = simpy.Event(env)
    event._ok, event._value = True, None  # as in a SimPy timeout
    priority = NORMAL if order is None else EventPriority(_IN_ORDER + order)
    heappush(env._queue, (time_s, priority, next(env._eid), event))
    return event


def fire(event: simpy.Event, value: Any = None) -> None:
    """Fire an event now and run its callbacks at once; to be called from a callback, outside any process.

    Where `env.run` runs until this event, the other callbacks come when it is run again, as in SimPy.

    >>> event = simpy.Environment().event()
    >>> fire(event, 3)
    >>> event.processed, event.value
    (True, 3)
    """
    event._ok, event._value = True, value
    waiting, event.callbacks = iter(event.callbacks), _NONE_ANY_MORE
    try:
        for go_on in waiting:
            go_on(event)
    except StopSimulation:
        event.callbacks = [*waiting]
        event.env.schedule(event, _FIRST_OF_ALL)
        raise


class Waiting(Protocol):
    """A network as its clock sees it, simulated up to `now_s`."""

    @property
    def now_s(self) -> float: ...

    def stuck(self) -> Sequence[object]: ...


class Environment(simpy.Environment):
    """SimPy's environment, for simulations with networks; each registers itself in `networks`.

    The clock has seconds as floats. Events of one time are processed first come, first served, but networks come
    last: what a process does at that time comes before any message moves. What the processes of a network then
    begin at the same time comes before the network again, and so on, until nothing is due. Within an instant of
    the network messages end first, then ranks go on, then messages reach their links; links are shared once, last.

    If nothing is scheduled any more while messages or ranks of a collective are stuck, a `SimulationError` says so.
    SimPy would end quietly or say that no events are left.
    """

    __slots__ = ("_now",)  # reads faster than an instance dictionary

    def __init__(self, initial_time: SimTime = 0):
        super().__init__(initial_time)
        self.networks: list[Waiting] = []

    def step(self) -> None:
        """Process the next event, as SimPy does, in one call instead of two for each event."""
        try:
            self._now, _, _, event = heappop(self._queue)
        except IndexError:
            self._raise_if_stuck()
            raise EmptySchedule from None
        callbacks, event.callbacks = event.callbacks, _NONE_ANY_MORE
        try:
            for callback in callbacks:
                callback(event)
        except StopSimulation:
            event.callbacks = callbacks[callbacks.index(callback) + 1 :]
            self.schedule(event, _FIRST_OF_ALL)
            raise
        if not event._ok and not hasattr(event, "_defused"):
            failure = type(event._value)(*event._value.args)
            failure.__cause__ = event._value
            raise failure

    def _raise_if_stuck(self) -> None:
        stuck = [str(wait) for network in self.networks for wait in network.stuck()]
        if stuck:
            more = [f"and {len(stuck) - _MOST_LISTED:,} more"] if len(stuck) > _MOST_LISTED else []
            lines = "\n  ".join([*stuck[:_MOST_LISTED], *more])
            now_s = max(self.now, *(network.now_s for network in self.networks))
            raise SimulationError(f"at {now_s} s the simulation is stuck, and these wait for ever:\n  {lines}")


# The slot itself: reading it costs a third of reading a property.
Environment.now = Environment.__dict__["_now"]  # type: ignore[method-assign]
