"""A collective in progress: ranks enter one by one, and events fire when they have reached a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.arguments import as_numbers
from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.flow import INFINITE
from clustersim.network.progress import EngineRanks

_STEP = itemgetter(0)  # of an event that waits for a rank


class PlayTimes(NamedTuple):
    """When each rank of a collective had finished its part [num_ranks]."""

    end_s: np.ndarray


class CollectiveEngine(Protocol):
    """What a collective needs of the engine that simulates it."""

    notifications: list[tuple[simpy.Event, Any]]
    now_s: float
    collectives: dict[Collective, EngineRanks]

    def begin(self, collective: Collective) -> EngineRanks: ...


class CollectiveNetwork(Protocol):
    """What a collective needs of its network."""

    env: simpy.Environment

    @property
    def engine(self) -> CollectiveEngine: ...
    @property
    def entering(self) -> dict[Collective, None]: ...

    def before_acting(self) -> None: ...
    def before_waiting(self) -> None: ...
    def after_acting(self) -> None: ...


class _Group:
    """Ranks with one event for all that reach a step at one time; the event's value are these ranks."""

    __slots__ = ("_look", "awaited", "event", "ranks", "step")

    def __init__(self, look: Callable[[list[int]], None], ranks: Sequence[int], step: int):
        self._look = look
        self.step = step
        self.awaited = set(ranks)  # ranks that have not reached the step
        self.event: simpy.Event | None = None
        self.ranks: list[int] = []

    def look(self, event: simpy.Event) -> None:
        """Call back with the ranks of an event."""
        assert isinstance(event.value, list)
        self._look(event.value)


class Collective:
    """One collective in progress. `finished` fires, with `PlayTimes`, when every rank is done.

    A message starts when both its ends have reached its step (rendezvous), an eager one when its sender has. A
    rank goes on when its own messages of the step have ended, after its own pause.
    """

    def __init__(
        self, network: CollectiveNetwork, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None
    ):
        shape = (schedule.num_ranks, schedule.num_steps)
        delays = None if delay_s is None else as_numbers("delay_s", delay_s)
        if delays is not None and (delays.shape != shape or not ((delays >= 0) & (delays < INFINITE)).all()):
            raise InputError(f"delay_s must have one finite delay of 0 or more per rank and step, so the shape {shape}")
        self.schedule = schedule
        self.nodes = nodes
        self.delay_s = delays
        self.finished: simpy.Event = network.env.event()
        self.num_entered = 0
        self.entries: list[tuple[list[int], list[float]]] = []  # (ranks, times) not passed to the engine yet
        self._entered: set[int] = set()
        self._waiting: dict[int, list[tuple[int, simpy.Event]]] = {}
        self._groups: list[_Group] = []
        self._unexpected: list[_Group] = []  # those that the engine has not got yet
        self._to_expect: list[int] = []  # ranks whose end is waited for, not passed to the engine yet
        self._network = network
        if schedule.num_ranks:
            self.ranks: EngineRanks = network.engine.begin(self)
        else:
            network.engine.notifications.append((self.finished, PlayTimes(np.empty(0))))

    def enter(self, *ranks: int) -> None:
        """Let ranks enter now."""
        self._network.before_acting()
        now_s = self._network.engine.now_s
        if len(ranks) == 1:
            self._note_entry(ranks[0], now_s)
        else:
            self._note_entries(ranks, [now_s] * len(ranks))
        self._network.after_acting()

    def enter_each(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        """Let ranks enter, each at its own time, none before now."""
        self._network.before_acting()
        self._note_entries(ranks, times_s)
        self._network.after_acting()

    def enter_at(self, times_s: Sequence[float]) -> None:
        """Let every rank enter at its own time [num_ranks], none before now."""
        self._note_entries(range(self.schedule.num_ranks), times_s)

    def flush(self) -> None:
        """Pass to the engine which ranks have entered, and which ranks are waited for."""
        groups, self._unexpected = self._unexpected, []
        for group in groups:
            self._expect(group)
        if self._to_expect:
            self.ranks.expect_each(self._to_expect, self.schedule.num_steps)
            self._to_expect = []
        entries, self.entries = self.entries, []
        if len(entries) == 1:
            self.ranks.enter(*entries[0])
        elif entries:  # all at once, in their order
            together = [[*chain.from_iterable(column)] for column in zip(*entries, strict=True)]
            self.ranks.enter(*together)

    def take_part(self, rank: int, done: simpy.Event | None = None) -> simpy.Event:
        """Let a rank enter now, and return what `done` does."""
        network = self._network
        network.before_acting()
        self._note_entry(rank, network.engine.now_s)
        event, num_steps = done or simpy.Event(network.env), self.schedule.num_steps
        if rank in self._waiting:
            self._waiting[rank].append((num_steps, event))
        else:
            self._waiting[rank] = [(num_steps, event)]
        self._to_expect.append(rank)
        network.after_acting()
        return event

    def done(self, rank: int, event: simpy.Event | None = None) -> simpy.Event:
        """Return an event, or the one given, that fires when this rank has finished its part."""
        return self.reached(rank, self.schedule.num_steps, event)

    def reached(self, rank: int, step: int, event: simpy.Event | None = None) -> simpy.Event:
        """Return an event, or the one given, that fires when this rank has finished every step before `step`."""
        self._check(rank, step)
        event = event or simpy.Event(self._network.env)
        self._network.before_waiting()
        if self.ranks.step_of(rank) >= step:
            event.succeed()
        else:
            self._waiting.setdefault(rank, []).append((step, event))
            self.ranks.expect(rank, step)
        return event

    def watch(self, ranks: Sequence[int], step: int, look: Callable[[list[int]], None]) -> None:
        """Call `look(ranks)` on the clock as these ranks finish every step before `step`, once for those of one time.

        The effect is that of `reached` for each rank, with fewer events.
        """
        self._network.before_waiting()
        group = _Group(look, ranks, step)
        self._groups.append(group)
        self._unexpected.append(group)
        self._network.entering[self] = None
        self._network.after_acting()

    def _check(self, rank: int, step: int) -> None:
        """Refuse ranks and steps that do not exist."""
        schedule = self.schedule
        if not 0 <= rank < schedule.num_ranks or not 0 <= step <= schedule.num_steps:
            raise InputError(
                f"the collective has ranks 0 to {schedule.num_ranks - 1} and steps 0 to {schedule.num_steps} "
                f"(got rank {rank}, step {step})",
                got=str((rank, step)),
            )

    def awaited(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranks and the steps that are waited for [num_awaited]."""
        pairs = [(rank, step) for rank, entries in self._waiting.items() for step, _ in entries]
        own = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        ranks, steps = [own[:, 0]], [own[:, 1]]
        for group in self._groups:
            ranks.append(np.array(sorted(group.awaited), dtype=np.int64))
            steps.append(np.full(len(group.awaited), group.step))
        return np.concatenate(ranks), np.concatenate(steps)

    def awaited_outside(self) -> list[int]:
        """Return the ranks that have not entered, and whose events something outside the collective waits for."""
        awaits_all = bool(self.finished.callbacks) and not self._entered
        outside = (rank for rank in range(self.schedule.num_ranks) if rank not in self._entered)
        return [rank for rank in outside if awaits_all or rank in self._waiting]

    def notify(self, rank: int, step: int) -> None:
        """Fire the events that wait for this rank, which has reached a step."""
        later: list[int] = []  # steps that are still waited for
        for group in self._groups:
            if rank not in group.awaited:
                continue
            if group.step <= step:
                self._notify_group(group, [rank])
            else:
                later.append(group.step)
        waiting = self._waiting.pop(rank, ())
        for due, event in waiting if len(waiting) < 2 else sorted(waiting, key=_STEP):
            if due <= step:
                self._network.engine.notifications.append((event, None))
            else:
                later.append(due)
                self._waiting.setdefault(rank, []).append((due, event))
        if later:
            self.ranks.expect(rank, min(later))

    def notify_each(self, ranks: list[int], steps: list[int]) -> None:
        """Fire the events that wait for ranks, which have reached their steps at one time."""
        if self._waiting:
            for rank, step in zip(ranks, steps, strict=True):
                self.notify(rank, step)
            return
        later: dict[int, int] = {}  # the next step at which each rank is still waited for
        for group in self._groups:
            awaited, due = group.awaited, group.step
            there = [rank for rank, step in zip(ranks, steps, strict=True) if due <= step and rank in awaited]
            if there:
                self._notify_group(group, there)
            for rank in awaited.intersection(ranks):
                later[rank] = min(due, later.get(rank, due))
        for due in sorted(set(later.values())):
            self.ranks.expect_each([rank for rank, step in later.items() if step == due], due)

    def notify_forecast(self, ranks: np.ndarray, steps: np.ndarray) -> None:
        """Fire the events that wait for ranks, which have reached their steps at one time, without the engine."""
        pairs = [*zip(ranks.tolist(), steps.tolist(), strict=True)]
        for group in self._groups:
            there = [rank for rank, step in pairs if step >= group.step and rank in group.awaited]
            if there:
                self._notify_group(group, there)
        if self._waiting:
            for rank, step in pairs:
                if rank in self._waiting:
                    self.notify(rank, step)

    def withdraw(self) -> None:
        """Take back what the engine has not got yet, since all has been computed without it."""
        self.entries, self._unexpected, self._to_expect = [], [], []
        self._network.entering.pop(self, None)

    def over(self, end_s: np.ndarray) -> None:
        """Fire `finished`: all ranks have ended at their times [num_ranks]."""
        del self._network.engine.collectives[self]
        self._network.engine.notifications.append((self.finished, PlayTimes(end_s)))

    def _notify_group(self, group: _Group, ranks: list[int]) -> None:
        """Fire the event of a group for ranks that reach its step at one time."""
        group.awaited.difference_update(ranks)
        if group.event is None or group.event.triggered:
            group.event, group.ranks = self._network.env.event(), []
            group.event.callbacks.append(group.look)
            self._network.engine.notifications.append((group.event, group.ranks))
        group.ranks += ranks

    def _expect(self, group: _Group) -> None:
        """Let the engine report the ranks that a group waits for; for those that are there already, fire now."""
        awaited = sorted(group.awaited)
        there = [rank for rank, step in zip(awaited, self.ranks.steps_of(awaited), strict=True) if step >= group.step]
        if there:
            self._notify_group(group, there)
        if group.awaited:
            self.ranks.expect_each(sorted(group.awaited), group.step)

    def _note_entry(self, rank: int, time_s: float) -> None:
        """Note that one rank enters: as `_note_entries` does, with fewer checks."""
        self._check(rank, 0)
        if rank in self._entered:
            raise InputError(f"rank {rank} has entered this collective before", got=str(rank))
        self._entered.add(rank)
        self.num_entered += 1
        self.entries.append(([rank], [time_s]))
        self._network.entering[self] = None

    def _note_entries(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        if len(ranks) == 1:
            self._note_entry(ranks[0], times_s[0])
            return
        new, entered = set(ranks), self._entered
        for rank in (min(new, default=0), max(new, default=0)):
            self._check(rank, 0)
        for rank in sorted(new & entered):
            raise InputError(f"rank {rank} has entered this collective before", got=str(rank))
        if len(new) < len(ranks):
            raise InputError(f"a rank enters a collective once (got the ranks {[*ranks]})", got=str([*ranks]))
        if new:
            entered |= new
            self.num_entered += len(new)
            self.entries.append(([*ranks], [*times_s]))
            self._network.entering[self] = None
