"""The clock that networks are played on: SimPy's own, which also says who is left waiting for ever."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop
from typing import Any, Protocol

import simpy
from simpy.core import EmptySchedule, SimTime, StopSimulation
from simpy.events import EventPriority

from clustersim.errors import SimulationError

_MOST_LISTED = 8  # of those who wait
_NONE_ANY_MORE: Any = None  # callbacks of an event that has happened, as SimPy has it
_FIRST_OF_ALL = EventPriority(-1)


class Waiting(Protocol):
    """A network as its clock sees it, played up to `now_s`."""

    @property
    def now_s(self) -> float: ...

    def stuck(self) -> Sequence[object]: ...


class Environment(simpy.Environment):
    """SimPy's environment, for simulations with networks; each registers itself in `networks`.

    The clock has seconds as floats. What is due at one time is processed first come, first served, except that
    networks come after everything else that is due then: a process that acts at that time is heard before any
    message moves on. What a network's processes then begin at the same time comes before it again, and so on,
    until nothing is due. Within an instant of the network messages end first, then ranks go on, then messages
    reach their links, and links are shared once, after that.

    If nothing is scheduled any more while messages or ranks of a collective stand still, that is told as a
    `SimulationError`, where SimPy would end quietly or say that no events are left.
    """

    __slots__ = ("_now",)  # where it is read most quickly

    def __init__(self, initial_time: SimTime = 0):
        super().__init__(initial_time)
        self.networks: list[Waiting] = []

    def step(self) -> None:
        """Process the next event: what SimPy does, in one call instead of two for each event of a simulation."""
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
            raise SimulationError(f"at {now_s} s nothing can happen any more, but somebody waits:\n  {lines}")


# The slot itself, which costs a third of what a property does that reads it.
Environment.now = Environment.__dict__["_now"]  # type: ignore[method-assign]
