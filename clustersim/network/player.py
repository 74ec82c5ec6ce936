"""Simulates a network ahead of SimPy's clock, and wakes up where a process waits for something."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import simpy

from clustersim.errors import InputError
from clustersim.network.collective import Collective
from clustersim.network.engine import Engine
from clustersim.network.environment import AFTER_ALL_OTHERS, fire
from clustersim.network.flow import INFINITE
from clustersim.network.progress import latest
from clustersim.network.uncontended.shortcut import UncontendedShortcut


class Player:
    """Connects an engine and SimPy. Every caller that acts on the network calls it before and after."""

    def __init__(
        self,
        env: simpy.Environment,
        engine: Engine,
        shortcut: UncontendedShortcut | None,
        choose_engine: Callable[[], None],
    ):
        """`choose_engine` is called before the engine runs, and may replace it."""
        self.engine = engine
        self.entering: dict[Collective, None] = {}  # those that ranks have entered since the engine last ran
        self._env = env
        self._choose_engine = choose_engine
        self._shortcut = shortcut
        self._alarms_s = [INFINITE]  # times of alarms; each was set for a time before all others
        self._alarm = simpy.Event(env)  # is due at all of them
        self._alarm._ok, self._alarm._value = True, None  # as in a SimPy timeout, which has no choice of priority
        self._on_alarms: list[Callable[[Any], None]] = [self._on_alarm]
        self._alarm.callbacks = self._on_alarms
        self._due_s = INFINITE  # when the next thing happens, as far as is known

    def before_acting(self) -> None:
        """Bring the engine to SimPy's time, which cannot be before its own."""
        now_s, engine, engine_s = float(self._env.now), self.engine, self.engine.now_s
        if now_s < engine_s and latest(now_s) < engine_s:
            raise InputError(
                f"the network is simulated up to {engine.now_s} s and cannot act at {now_s} s: act from a "
                "process, or between two calls of env.run, not between two of env.step"
            )
        if self._shortcut is not None and self._shortcut.leave(engine, now_s):
            self._let_enter()
            while latest(engine.next_s()) < now_s:
                engine.play(engine.next_s(), now_s)
            engine_s = engine.now_s
        if now_s > engine_s:
            engine.now_s = now_s

    def after_acting(self) -> None:
        """Fire what is due at once in SimPy, and set an alarm for what comes later."""
        if self.engine.notifications:
            self._fire()
        self._wake_up_at(self._next_s())

    def before_looking(self) -> None:
        """Give the shortcut up before something is read or waited for that it has not computed."""
        if self._shortcut is not None and self._shortcut.is_taken:
            self.before_acting()
            self.after_acting()

    def settle(self) -> None:
        """Do what is due by SimPy's time, so that the shares of the links hold from then on."""
        self.before_acting()
        self._let_enter()
        self.engine.play(self.engine.now_s, self.engine.now_s)
        self.after_acting()

    def take_no_shortcut(self) -> None:
        """Simulate every message from now on."""
        self.before_looking()
        self._shortcut = None

    def set_alarm(self) -> None:
        """Set an alarm for when the next thing happens; an alarm too early does no harm."""
        self._wake_up_at(self.engine.now_s if self.engine.notifications else self._next_s())

    def _wake_up_at(self, time_s: float) -> None:
        """Set an alarm for a time, after all other events."""
        self._due_s = time_s
        if time_s < self._alarms_s[-1]:
            env = self._env
            env.schedule(self._alarm, AFTER_ALL_OTHERS, max(0.0, time_s - env.now))
            self._alarms_s.append(time_s)

    def _play(self, now_s: float) -> None:
        """Simulate to the next notification, or to the next event on SimPy's clock."""
        until_s = float(self._env.peek())
        while True:
            self._choose_engine()
            if self.entering:
                self._let_enter()
            engine = self.engine
            engine.play(now_s, until_s)
            if engine.notifications or engine.next_s() >= until_s:
                return
            now_s = engine.now_s

    def _let_enter(self) -> None:
        """Let the ranks enter that have called `enter` since the engine last ran."""
        for collective in self.entering:
            collective.flush()
        self.entering.clear()

    def _next_s(self) -> float:
        if self.entering and not (self._shortcut is not None and self._shortcut.is_taken):
            return self.engine.now_s
        shortcut = self._shortcut
        return shortcut.next_s if shortcut is not None and shortcut.is_taken else self.engine.next_s()

    def _fire(self) -> None:
        """Fire the events of what has completed."""
        notifications, self.engine.notifications = self.engine.notifications, []
        for event, value in notifications:
            event.succeed(value)

    def _fire_ahead(self, now_s: float) -> None:
        """Fire the events of what has completed at its time, before which nothing else happens; set an alarm."""
        notifications, self.engine.notifications = self.engine.notifications, []
        time_s = self.engine.now_s if self.engine.now_s > latest(now_s) else now_s
        if notifications:
            (event, value), *others = notifications
            event._ok, event._value = True, value  # as in `succeed`, which has no later time
            event.callbacks += [partial(_fire_one, *other) for other in others]
            self._env.schedule(event, delay=time_s - now_s)
            self._wake_up_at(time_s)
        else:
            self.set_alarm()

    def _on_alarm(self, alarm: simpy.Event) -> None:
        alarm.callbacks = self._on_alarms
        self._alarms_s.pop()
        now_s, engine, shortcut = float(self._env.now), self.engine, self._shortcut
        if self._due_s > latest(now_s):
            self.set_alarm()  # this alarm is outdated: a process has acted, and its reason comes later
            return
        if engine.notifications:
            self._fire()
        if engine.is_stale:
            engine.play(max(now_s, engine.now_s), now_s)  # until links are shared, ends of messages are not known
        if shortcut is not None and (shortcut.is_taken or (not engine.notifications and shortcut.take(engine))):
            shortcut.fire(engine, now_s)
        elif not engine.notifications:
            self._play(max(now_s, engine.now_s))
        self._fire_ahead(now_s)


def _fire_one(event: simpy.Event, value: Any, _: simpy.Event) -> None:
    """Fire the event of what has completed together with something else, which has an event on the clock."""
    fire(event, value)
