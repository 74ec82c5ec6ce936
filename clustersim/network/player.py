"""Plays a network ahead of SimPy's clock, and wakes up where somebody waits for something."""

from __future__ import annotations

import simpy
from simpy.events import EventPriority

from clustersim.errors import InputError
from clustersim.network.engine import Engine
from clustersim.network.flow import INFINITE
from clustersim.network.repeats import Repeats

_AFTER_ALL_OTHERS = EventPriority(2)  # SimPy runs lower numbers first within an instant; its own are 0 and 1


class Player:
    """Between the engine and SimPy. Whoever acts on the network says so before and after."""

    def __init__(self, env: simpy.Environment, engine: Engine, repeats: Repeats | None):
        self._env = env
        self._engine = engine
        self._repeats = repeats
        self._alarm: simpy.Event | None = None
        self._alarm_s = INFINITE

    def before_acting(self) -> None:
        """Bring the engine to SimPy's time, which cannot be before its own."""
        now_s, engine = self._env.now, self._engine
        if engine.latest(now_s) < engine.now_s:
            raise InputError(
                f"the network has played ahead to {engine.now_s} s and cannot act at {now_s} s: act from a "
                "process, or between two calls of env.run, not between two of env.step"
            )
        engine.now_s = max(now_s, engine.now_s)
        if self._repeats is not None:
            self._repeats.forget()

    def after_acting(self) -> None:
        """Tell SimPy what follows at once, and be woken for what comes later."""
        self._tell()
        self.set_alarm()

    def set_alarm(self) -> None:
        """Wake up when the next thing happens; being woken too early does no harm."""
        time_s = self._engine.now_s if self._engine.told else self._engine.next_s()
        if time_s < self._alarm_s:
            alarm = self._env.event()
            alarm._ok, alarm._value = True, None  # as a SimPy timeout does, which has no priority to choose
            alarm.callbacks.append(self._on_alarm)
            self._env.schedule(alarm, priority=_AFTER_ALL_OTHERS, delay=max(0.0, time_s - self._env.now))
            self._alarm, self._alarm_s = alarm, time_s

    def _tell(self) -> None:
        """Fire the events of what has been completed."""
        told, self._engine.told = self._engine.told, []
        for event, value in told:
            event.succeed(value)

    def _on_alarm(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:
            return  # an earlier one has been set since
        self._alarm, self._alarm_s = None, INFINITE
        engine, repeats = self._engine, self._repeats
        self._tell()  # what was found by playing ahead to this time
        now_s = max(self._env.now, engine.now_s)
        if engine.next_s() <= engine.latest(now_s):
            engine.play_instant(now_s)
            self._tell()
        until_s = self._env.peek()
        while not engine.told and (time_s := engine.next_s()) < until_s:
            engine.play_instant(time_s)
            if repeats is not None and engine.stepped is not None:
                repeats.look(until_s)
        self.set_alarm()
