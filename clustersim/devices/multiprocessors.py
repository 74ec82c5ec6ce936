"""The multiprocessors of a GPU: while collectives occupy some of them, compute runs at the rest of the speed."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network.environment import fire
from clustersim.stragglers import Pace

Pieces = list[tuple[float, float]]
"""Times at which the speed changed, and the seconds of work that were done by then."""


class Multiprocessors:
    """Runs one piece of work at a time. Its speed is 1 minus the occupied shares, times the pace.

    With nothing left it stands still until a share is released.

    >>> env = simpy.Environment()
    >>> own = Multiprocessors(env, None)
    >>> own.occupy(0.25)
    >>> env.run(own.work(3.0)), env.now
    ([], 4.0)
    """

    def __init__(self, env: simpy.Environment, pace: Pace | None):
        self._env, self._pace = env, pace
        self._occupied: list[float] = []
        self._speed = 1.0
        self._done: simpy.Event | None = None  # of the present work
        self._pieces: Pieces = []
        self._work_s = self._left_s = self._since_s = self._lost_s = 0.0
        self._alarm = 0  # the number of the latest alarm: earlier ones are ignored

    def take_lost_s(self) -> float:
        """Return the seconds lost to occupied shares since the last call: the sum of durations x shares."""
        lost_s, self._lost_s = self._lost_s, 0.0
        return lost_s

    def occupy(self, share: float) -> None:
        """Occupy a share of the multiprocessors, 0 to 1, from now on."""
        self._catch_up()
        self._occupied.append(share)
        self._change_speed()

    def release(self, share: float) -> None:
        """Release a share that was occupied."""
        self._catch_up()
        self._occupied.remove(share)
        self._change_speed()

    def work(self, seconds: float) -> simpy.Event:
        """Begin work of some seconds at full speed; return the event of its end, whose value are its pieces."""
        self._done, self._pieces = simpy.Event(self._env), []
        self._work_s = self._left_s = seconds
        self._since_s = float(self._env.now)
        self._set_alarm()
        return self._done

    def _change_speed(self) -> None:
        """Go on at the speed that the occupied shares leave now."""
        self._speed = max(0.0, 1.0 - sum(self._occupied))
        if self._done is not None:
            self._set_alarm()

    def _catch_up(self) -> None:
        """Note the work that is done until now, before the speed changes."""
        if self._done is None:
            return
        now_s, speed = float(self._env.now), self._speed
        if now_s <= self._since_s:
            return
        self._lost_s += (now_s - self._since_s) * (1.0 - speed)
        self._left_s = max(0.0, self._left_s - self._paced_s(now_s) * speed)
        self._since_s = now_s
        self._pieces.append((now_s, self._work_s - self._left_s))

    def _paced_s(self, until_s: float) -> float:
        """Return the seconds of work done since the last change at the pace, with all multiprocessors."""
        if self._pace is None:
            return until_s - self._since_s
        times_s, speeds = self._pace.pieces(self._since_s, until_s)
        return float((np.diff(times_s) * speeds).sum())

    def _set_alarm(self) -> None:
        """Set an alarm for the end of the work at the present speed."""
        self._alarm += 1
        if not self._speed:
            return
        needed_s = self._left_s / self._speed
        if self._pace is not None:
            needed_s = self._pace.end_s(self._since_s, needed_s) - self._since_s
        simpy.Timeout(self._env, needed_s, self._alarm).callbacks.append(self._end)

    def _end(self, alarm: simpy.Event) -> None:
        """End the work, unless the speed has changed since the alarm was set. Fires its event outside the queue."""
        done = self._done
        if alarm._value != self._alarm or done is None:
            return
        self._lost_s += (float(self._env.now) - self._since_s) * (1.0 - self._speed)
        self._done = None
        fire(done, self._pieces)
