"""What computes on a GPU whose multiprocessors others hold for a while: it goes on, at what is left of its speed."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network.environment import fire
from clustersim.stragglers import Pace

Pieces = list[tuple[float, float]]
"""Times at which the speed changed, and the seconds of work that were done by then."""


class Multiprocessors:
    """One thing at a time that computes, at 1 - the shares of the multiprocessors that others hold, times the pace.

    With nothing left it stands still until somebody lets go.

    >>> env = simpy.Environment()
    >>> own = Multiprocessors(env, None)
    >>> own.hold(0.25)
    >>> env.run(own.work(3.0)), env.now
    ([], 4.0)
    """

    def __init__(self, env: simpy.Environment, pace: Pace | None):
        self._env, self._pace = env, pace
        self._held: list[float] = []
        self._speed = 1.0
        self._over: simpy.Event | None = None  # of what computes now
        self._pieces: Pieces = []
        self._work_s = self._left_s = self._since_s = self._lost_s = 0.0
        self._alarm = 0  # the number of the latest one: those before it mean nothing any more

    def take_lost_s(self) -> float:
        """Return the seconds that have been lost to others since this was asked last: each piece's length x share."""
        lost_s, self._lost_s = self._lost_s, 0.0
        return lost_s

    def hold(self, share: float) -> None:
        """Let somebody hold a share of the multiprocessors from now on."""
        self._come_this_far()
        self._held.append(share)
        self._change_speed()

    def let_go(self, share: float) -> None:
        """Let somebody hold no longer what was held."""
        self._come_this_far()
        self._held.remove(share)
        self._change_speed()

    def work(self, seconds: float) -> simpy.Event:
        """Begin work that takes so long with all multiprocessors; return an event of its end, with its pieces."""
        self._over, self._pieces = simpy.Event(self._env), []
        self._work_s = self._left_s = seconds
        self._since_s = float(self._env.now)
        self._set_alarm()
        return self._over

    def _change_speed(self) -> None:
        """Go on at what is left by those who hold a share now."""
        self._speed = max(0.0, 1.0 - sum(self._held))
        if self._over is not None:
            self._set_alarm()

    def _come_this_far(self) -> None:
        """Note what has been done until now at the speed that changes now."""
        if self._over is None:
            return
        now_s, speed = float(self._env.now), self._speed
        if now_s <= self._since_s:
            return
        self._lost_s += (now_s - self._since_s) * (1.0 - speed)
        self._left_s = max(0.0, self._left_s - self._paced_s(now_s) * speed)
        self._since_s = now_s
        self._pieces.append((now_s, self._work_s - self._left_s))

    def _paced_s(self, until_s: float) -> float:
        """Return the work that is done from the last change on at the pace, with all multiprocessors."""
        if self._pace is None:
            return until_s - self._since_s
        times_s, speeds = self._pace.pieces(self._since_s, until_s)
        return float((np.diff(times_s) * speeds).sum())

    def _set_alarm(self) -> None:
        """Let what computes end when it does at the speed of now, unless that changes."""
        self._alarm += 1
        if not self._speed:
            return
        needed_s = self._left_s / self._speed
        if self._pace is not None:
            needed_s = self._pace.end_s(self._since_s, needed_s) - self._since_s
        simpy.Timeout(self._env, needed_s, self._alarm).callbacks.append(self._ring)

    def _ring(self, alarm: simpy.Event) -> None:
        """Let who waits go on at once, without another event: what computes is over, unless its speed has changed."""
        over = self._over
        if alarm._value != self._alarm or over is None:
            return
        self._lost_s += (float(self._env.now) - self._since_s) * (1.0 - self._speed)
        self._over = None
        fire(over, self._pieces)
