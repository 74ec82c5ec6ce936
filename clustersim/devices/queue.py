"""A queue before something that serves one at a time: first come, first served."""

from __future__ import annotations

from collections import deque

import simpy


class Queue:
    """Turns at a server. Who finds nobody there goes on at once, without an event on the clock.

    >>> queue = Queue(simpy.Environment())
    >>> queue.come() is None, queue.come() is None
    (True, False)
    """

    __slots__ = ("_env", "_is_busy", "_waiting")

    def __init__(self, env: simpy.Environment):
        self._env = env
        self._is_busy = False
        self._waiting: deque[simpy.Event] = deque()

    def come(self) -> simpy.Event | None:
        """Join the queue; return the event of one's turn, or None where it has come."""
        if not self._is_busy:
            self._is_busy = True
            return None
        turn = self._env.event()
        self._waiting.append(turn)
        return turn

    def go(self) -> None:
        """Leave after one's turn, and let the next one come."""
        if self._waiting:
            self._waiting.popleft().succeed()
        else:
            self._is_busy = False
