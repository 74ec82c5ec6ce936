"""Events that happen when it becomes known that they do, without a place of their own on the clock."""

from __future__ import annotations

from typing import Any

import simpy
from simpy.core import StopSimulation
from simpy.events import EventPriority

_NONE_ANY_MORE: Any = None  # callbacks of an event that has happened, as SimPy has it
_FIRST_OF_ALL = EventPriority(-1)


def fire(event: simpy.Event, value: Any = None) -> None:
    """Let an event happen now, and who waits for it go on at once: from a callback, where no process is at work.

    Where the simulation runs until it happens, who waits beside that goes on when it is run again, as in SimPy.

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
