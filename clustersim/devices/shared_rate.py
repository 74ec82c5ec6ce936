"""Something that works at one rate for all who use it at that moment, each getting an equal share."""

from __future__ import annotations

import heapq
from itertools import count

import simpy

_TIE = 1e-14
"""Times this close, relative to the clock, are the same instant: the clock itself resolves 2e-16."""


class SharedRate:
    """Processor sharing: with n users each is served at `per_s / n` (Kleinrock, Queueing Systems 2, 1976, chapter 4).

    What each user has been given since the last time nobody was there is the same for all, and is all that is kept: a
    user is done when that has grown by the amount it asked for. An arrival or a departure costs a heap operation,
    however many users there are. The unit of amounts is whatever the rate counts.

    >>> env = simpy.Environment()
    >>> rate = SharedRate(env, 10.0)
    >>> first, second = rate.serve(10.0), rate.serve(20.0)
    >>> env.run(second), env.now
    (None, 3.0)
    """

    def __init__(self, env: simpy.Environment, per_s: float):
        self._env, self._per_s = env, per_s
        self._given = 0.0  # to each user, since the last time nobody was there
        self._then_s = 0.0  # when that was brought up to date
        self._alarm_s = float("inf")
        self._alarm: simpy.Event | None = None
        self._users: list[tuple[float, int, simpy.Event]] = []
        self._numbers = count()

    def serve(self, amount: float) -> simpy.Event:
        """Begin to serve so much; return the event that fires when it is done."""
        self._catch_up()
        done = self._env.event()
        heapq.heappush(self._users, (self._given + amount, next(self._numbers), done))
        self._watch()
        return done

    def _catch_up(self) -> None:
        """Bring what each user has been given to this instant."""
        if self._users:
            self._given += (self._env.now - self._then_s) * self._per_s / len(self._users)
        else:
            self._given = 0.0
        self._then_s = self._env.now

    def _due_s(self) -> float:
        """Return when the next user is done if nobody comes before."""
        return self._env.now + (self._users[0][0] - self._given) * len(self._users) / self._per_s

    def _watch(self) -> None:
        """See to it that somebody looks when the next user is done, or before."""
        due_s = self._due_s()
        if due_s >= self._alarm_s:
            return  # the alarm that is set comes early enough, and sets the next one
        self._alarm_s, self._alarm = due_s, self._env.timeout(max(0.0, due_s - self._env.now))
        self._alarm.callbacks.append(self._look)

    def _look(self, alarm: simpy.Event) -> None:
        """Let those go who are done, all who are at this instant."""
        if alarm is not self._alarm:
            return  # another came before it
        self._catch_up()
        self._alarm_s = float("inf")
        while self._users and self._due_s() <= self._env.now * (1 + _TIE):
            heapq.heappop(self._users)[2].succeed()
        if self._users:
            self._watch()
