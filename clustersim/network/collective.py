"""A collective on its way through a network: ranks enter one by one, messages go out, ranks are done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError
from clustersim.network.gating import Gating, Messages


class PlayTimes(NamedTuple):
    """When each rank of a collective had finished its part [num_ranks]."""

    end_s: np.ndarray


class Paths(NamedTuple):
    """Routes of messages and the time before their first byte [num_messages]."""

    routes: list[np.ndarray]
    latency_s: np.ndarray


class Wires(Protocol):
    """What a collective needs of its network."""

    env: simpy.Environment

    def paths(self, src: np.ndarray, dst: np.ndarray) -> Paths: ...
    def at(self, time_s: float, action: Callable[[], None]) -> None: ...
    def post(self, paths: Paths, num_bytes: np.ndarray, weight: float, tags: np.ndarray) -> None: ...
    def ask_for_entry(self, action: Callable[[], None]) -> None: ...
    def forget(self, collective: int) -> None: ...


class Collective:
    """One collective in progress. `finished` fires, with `PlayTimes`, when every rank is done."""

    def __init__(
        self, wires: Wires, number: int, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None
    ):
        shape = (schedule.num_ranks, schedule.num_steps)
        if delay_s is not None and (np.shape(delay_s) != shape or not (np.asarray(delay_s) >= 0).all()):
            raise InputError(f"delay_s must have one delay of 0 or more per rank and step, so the shape {shape}")
        self.nodes = nodes
        self.finished: simpy.Event = wires.env.event()
        self._wires = wires
        self._number = number
        self._gating = Gating(schedule)
        self._delay_s = None if delay_s is None else np.asarray(delay_s, dtype=float)
        self._num_steps = schedule.num_steps
        self._end_s = np.full(schedule.num_ranks, np.nan)
        self._entered = np.zeros(schedule.num_ranks, dtype=bool)
        self._step = np.full(schedule.num_ranks, -1)  # that each rank has reached
        self._waiting: dict[int, list[tuple[int, simpy.Event]]] = {}
        self._entering: list[int] = []
        self._known_paths: tuple[Step, Paths] | None = None
        self._num_left = schedule.num_ranks
        if not schedule.num_ranks:
            self._finish()

    def enter(self, *ranks: int) -> None:
        """Let ranks take part from now on."""
        for rank in ranks:
            if self._entered[rank]:
                raise InputError(f"rank {rank} has entered this collective before")
            self._entered[rank] = True
        if ranks and not self._entering:
            self._wires.ask_for_entry(self._enter_together)
        self._entering.extend(ranks)

    def done(self, rank: int) -> simpy.Event:
        """Return an event that fires when this rank has finished its part."""
        return self.reached(rank, self._num_steps)

    def reached(self, rank: int, step: int) -> simpy.Event:
        """Return an event that fires when this rank has finished every step before `step`."""
        event = self._wires.env.event()
        if self._step[rank] >= step:
            event.succeed()
        else:
            self._waiting.setdefault(rank, []).append((step, event))
        return event

    def _enter_together(self) -> None:
        ranks, self._entering = np.array(sorted(self._entering), dtype=np.int64), []
        self._go_on(ranks, 0)

    def _go_on(self, ranks: np.ndarray, step: int) -> None:
        """Take ranks to a step, after their own delay before it, or out at the end."""
        self._step[ranks] = step
        self._tell(ranks)
        if step == self._num_steps:
            self._leave(ranks)
        elif self._delay_s is None:
            self._arrive(ranks, step)
        else:
            delay = self._delay_s[ranks, step]
            for wait in np.unique(delay):
                same = ranks[delay == wait]
                if wait:
                    self._wires.at(self._wires.env.now + float(wait), partial(self._arrive, same, step))
                else:
                    self._arrive(same, step)

    def _arrive(self, ranks: np.ndarray, step: int) -> None:
        messages, idle = self._gating.arrive(ranks, step)
        if len(messages.index):
            self._send(messages)
        if len(idle):
            self._go_on(idle, step + 1)

    def _send(self, messages: Messages) -> None:
        columns, index = messages.columns, messages.index
        known = self._known_paths
        if known is None or known[0].src is not columns.src or known[0].dst is not columns.dst:
            paths = self._wires.paths(self.nodes[columns.src], self.nodes[columns.dst])
            self._known_paths = known = columns, paths
        tags = np.zeros((len(index), 4), dtype=np.int64)
        tags[:, 0], tags[:, 1], tags[:, 2] = self._number, messages.step, index
        paths = Paths([known[1].routes[number] for number in index], known[1].latency_s[index])
        self._wires.post(paths, columns.num_bytes[index], 1.0, tags)

    def reducing(self, step: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of messages in progress, return which ones the receiver adds, the nodes that add, and the bytes."""
        columns = self._gating.columns(step)
        adds = columns.reduce[index]
        return adds, self.nodes[columns.dst[index]], columns.num_bytes[index]

    def end(self, step: int, index: np.ndarray) -> None:
        """Let messages of a step be over, and with them the step of ranks that have no more."""
        ranks = self._gating.end(step, index)
        if len(ranks):
            self._go_on(ranks, step + 1)

    def _leave(self, ranks: np.ndarray) -> None:
        self._end_s[ranks] = self._wires.env.now
        self._num_left -= len(ranks)
        if not self._num_left:
            self._finish()

    def _tell(self, ranks: np.ndarray) -> None:
        """Fire what waits for these ranks to have come this far."""
        if not self._waiting:
            return
        for rank in ranks.tolist():
            waiting = self._waiting.pop(rank, [])
            for step, event in waiting:
                if self._step[rank] >= step:
                    event.succeed()
            later = [(step, event) for step, event in waiting if self._step[rank] < step]
            if later:
                self._waiting[rank] = later

    def _finish(self) -> None:
        self._wires.forget(self._number)
        self.finished.succeed(PlayTimes(self._end_s))
