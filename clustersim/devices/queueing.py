"""Two ways in which a resource serves several users: one at a time, or all at once at equal shares of its rate."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

import simpy

_TIE = 1e-14
"""Times this close, relative to the clock, are the same instant: the clock itself resolves 2e-16."""


class Queue:
    """A resource that serves one user at a time, first come, first served.

    An idle resource is acquired at once, without an event on the clock.

    >>> queue = Queue(simpy.Environment())
    >>> queue.acquire() is None, queue.acquire() is None
    (True, False)
    """

    __slots__ = ("_env", "_is_busy", "_waiting")

    def __init__(self, env: simpy.Environment):
        self._env = env
        self._is_busy = False
        self._waiting: deque[simpy.Event] = deque()

    def acquire(self) -> simpy.Event | None:
        """Join the queue; return the event to wait for before use, or None where the resource is free."""
        if not self._is_busy:
            self._is_busy = True
            return None
        acquired = self._env.event()
        self._waiting.append(acquired)
        return acquired

    def release(self) -> None:
        """Release the resource after use; the next one in the queue gets it."""
        if self._waiting:
            self._waiting.popleft().succeed()
        else:
            self._is_busy = False


class SharedRate:
    """A resource whose rate all its users share equally at every moment.

    This is processor sharing: with n users each is served at `per_s / n` (Kleinrock, Queueing Systems 2, 1976,
    chapter 4). All users have been given the same amount since the resource was last idle, and only that amount is
    kept. A user is done when it has grown by the amount that the user asked for. An arrival or a departure costs a heap
    operation, however many users there are. Amounts are in the unit that the rate counts per second.

    >>> env = simpy.Environment()
    >>> rate = SharedRate(env, 10.0)
    >>> first, second = rate.serve(10.0), rate.serve(20.0)
    >>> env.run(second), env.now
    (None, 3.0)
    """

    def __init__(self, env: simpy.Environment, per_s: float):
        self._env, self._per_s = env, per_s
        self._given = 0.0  # to each user since the resource was last idle
        self._given_at_s = 0.0  # the time up to which that is known
        self._alarm_s = float("inf")
        self._alarm: simpy.Event | None = None
        self._users: list[tuple[float, int, simpy.Event]] = []  # heap of: end of its amount, number, event of its end
        self._numbers = count()

    def serve(self, amount: float) -> simpy.Event:
        """Begin to serve an amount; return the event that fires when it is done."""
        self._catch_up()
        done = self._env.event()
        heapq.heappush(self._users, (self._given + amount, next(self._numbers), done))
        self._set_alarm()
        return done

    def _catch_up(self) -> None:
        """Update the amount given to each user to the present time."""
        if self._users:
            self._given += (self._env.now - self._given_at_s) * self._per_s / len(self._users)
        else:
            self._given = 0.0
        self._given_at_s = self._env.now

    def _due_s(self) -> float:
        """Return when the next user is done if no other one arrives before."""
        return self._env.now + (self._users[0][0] - self._given) * len(self._users) / self._per_s

    def _set_alarm(self) -> None:
        """Set an alarm for when the next user is done, unless an earlier one is set: that sets the next alarm."""
        due_s = self._due_s()
        if due_s >= self._alarm_s:
            return
        self._alarm_s, self._alarm = due_s, self._env.timeout(max(0.0, due_s - self._env.now))
        self._alarm.callbacks.append(self._end_due)

    def _end_due(self, alarm: simpy.Event) -> None:
        """End the service of all users that are done at this instant."""
        if alarm is not self._alarm:
            return  # an earlier one has replaced it
        self._catch_up()
        self._alarm_s = float("inf")
        while self._users and self._due_s() <= self._env.now * (1 + _TIE):
            heapq.heappop(self._users)[2].succeed()
        if self._users:
            self._set_alarm()
