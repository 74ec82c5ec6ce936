"""A collective as those see it who take part: ranks enter one by one, and are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.side import Ranks, Side


class PlayTimes(NamedTuple):
    """When each rank of a collective had finished its part [num_ranks]."""

    end_s: np.ndarray


class Wires(Protocol):
    """What a collective needs of its network."""

    env: simpy.Environment

    @property
    def side(self) -> Side: ...
    @property
    def entering(self) -> dict[Collective, None]: ...

    def before_acting(self) -> None: ...
    def before_waiting(self) -> None: ...
    def after_acting(self) -> None: ...


class _Group:
    """Those who are told together: `ranks` have come at the time at which `event` fires."""

    __slots__ = ("_look", "event", "ranks")

    def __init__(self, look: Callable[[list[int]], None]):
        self._look = look
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

    def __init__(self, wires: Wires, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None):
        shape = (schedule.num_ranks, schedule.num_steps)
        if delay_s is not None and (np.shape(delay_s) != shape or not (np.asarray(delay_s) >= 0).all()):
            raise InputError(f"delay_s must have one delay of 0 or more per rank and step, so the shape {shape}")
        self.schedule = schedule
        self.nodes = nodes
        self.delay_s = None if delay_s is None else np.asarray(delay_s, dtype=float)
        self.finished: simpy.Event = wires.env.event()
        self.num_entered = 0
        self.entries: dict[int, float] = {}  # ranks whose side has not heard of it, and the time of each
        self._entered = [False] * schedule.num_ranks
        self._waiting: dict[int, list[tuple[int, simpy.Event | _Group]]] = {}
        self._wires = wires
        if schedule.num_ranks:
            self.ranks: Ranks = wires.side.begin(self)
        else:
            wires.side.told.append((self.finished, PlayTimes(np.empty(0))))

    def enter(self, *ranks: int) -> None:
        """Let ranks take part from now on."""
        self._wires.before_acting()
        self._note_entries(ranks, [self._wires.side.now_s] * len(ranks))
        self._wires.after_acting()

    def enter_at(self, times_s: list[float]) -> None:
        """Let every rank take part from its own time on, none of which is before now."""
        self._note_entries(range(len(times_s)), times_s)

    def flush(self) -> None:
        """Let those ranks enter on the side that plays them who have done so here."""
        entries, self.entries = self.entries, {}
        if entries:
            self.ranks.enter(list(entries), list(entries.values()))

    def done(self, rank: int) -> simpy.Event:
        """Return an event that fires when this rank has finished its part."""
        return self.reached(rank, self.schedule.num_steps)

    def reached(self, rank: int, step: int) -> simpy.Event:
        """Return an event that fires when this rank has finished every step before `step`."""
        self._check(rank, step)
        event = self._wires.env.event()
        self._wires.before_waiting()
        if self.ranks.step_of(rank) >= step:
            event.succeed()
        else:
            self._waiting.setdefault(rank, []).append((step, event))
            self.ranks.expect(rank, step)
        return event

    def watch(self, ranks: Sequence[int], step: int, look: Callable[[list[int]], None]) -> None:
        """Call `look(ranks)` on the clock as these ranks finish every step before `step`, once for those of one time.

        That is what waiting for each by `reached` comes to, in fewer events.
        """
        self._wires.before_waiting()
        group = _Group(look)
        for rank in ranks:
            if self.ranks.step_of(rank) >= step:
                self._tell(group, rank)
            else:
                self._waiting.setdefault(rank, []).append((step, group))
                self.ranks.expect(rank, step)
        if group.event is not None:
            self._wires.after_acting()

    def _check(self, rank: int, step: int) -> None:
        """Refuse ranks and steps that there are not."""
        schedule = self.schedule
        if not 0 <= rank < schedule.num_ranks or not 0 <= step <= schedule.num_steps:
            raise InputError(
                f"the collective has ranks 0 to {schedule.num_ranks - 1} and steps 0 to {schedule.num_steps} "
                f"(got rank {rank}, step {step})",
                got=str((rank, step)),
            )

    def awaited(self) -> list[tuple[int, int]]:
        """Return the ranks and the steps that somebody waits for."""
        return [(rank, step) for rank, entries in self._waiting.items() for step, _ in entries]

    def awaited_outside(self) -> list[int]:
        """Return the ranks that have not entered, for whose part or whole somebody waits who is no rank here."""
        is_begun = any(self._entered)
        awaits_all = bool(self.finished.callbacks) and not is_begun
        return [rank for rank, has in enumerate(self._entered) if not has and (awaits_all or rank in self._waiting)]

    def came(self, rank: int, step: int) -> None:
        """Let those know who wait for a rank to have come to a step."""
        waiting = self._waiting.pop(rank, [])
        for due, target in waiting:
            if due <= step:
                self._tell(target, rank)
        later = [entry for entry in waiting if entry[0] > step]
        if later:
            self._waiting[rank] = later
            self.ranks.expect(rank, min(due for due, _ in later))

    def over(self, end_s: np.ndarray) -> None:
        """Let those know who wait for all ranks, which have ended at their times [num_ranks]."""
        self.entries = {}
        del self._wires.side.collectives[self]
        self._wires.side.told.append((self.finished, PlayTimes(end_s)))

    def _tell(self, target: simpy.Event | _Group, rank: int) -> None:
        """Let one know, or many who are told together of the ranks that come at one time."""
        if isinstance(target, simpy.Event):
            self._wires.side.told.append((target, None))
            return
        if target.event is None or target.event.triggered:
            target.event, target.ranks = self._wires.env.event(), []
            target.event.callbacks.append(target.look)
            self._wires.side.told.append((target.event, target.ranks))
        target.ranks.append(rank)

    def _note_entries(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        for rank in ranks:
            self._check(rank, 0)
            if self._entered[rank]:
                raise InputError(f"rank {rank} has entered this collective before", got=str(rank))
        if len(set(ranks)) < len(ranks):
            raise InputError(f"a rank enters a collective once (got the ranks {list(ranks)})", got=str(list(ranks)))
        for rank in ranks:
            self._entered[rank] = True
        self.num_entered += len(ranks)
        self.entries.update(zip(ranks, times_s, strict=True))
        if self.entries:
            self._wires.entering[self] = None
