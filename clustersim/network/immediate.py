"""Fires a SimPy event immediately, outside its queue."""

from __future__ import annotations

from typing import Any

import simpy
from simpy.core import StopSimulation
from simpy.events import EventPriority

_NONE_ANY_MORE: Any = None  # callbacks of an event that has fired, as in SimPy
_FIRST_OF_ALL = EventPriority(-1)


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
