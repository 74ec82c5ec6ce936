"""A collective on its way through a network: ranks enter one by one, messages go out, ranks are done."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.engine import Engine
from clustersim.network.flow import Flow, Path
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Paths, Plan, Plans


class PlayTimes(NamedTuple):
    """When each rank of a collective had finished its part [num_ranks]."""

    end_s: np.ndarray


class Wires(Protocol):
    """What a collective needs of its network."""

    env: simpy.Environment
    adds: bool
    engine: Engine
    known_paths: Paths
    plans: Plans

    def before_acting(self) -> None: ...
    def after_acting(self) -> None: ...


class Collective:
    """One collective in progress. `finished` fires, with `PlayTimes`, when every rank is done.

    A message starts when both its ends have reached its step (rendezvous). A rank goes on when its own
    messages of the step have ended, after its own pause. A step is opened by the first rank that reaches
    it and dropped by the last that leaves it, so memory grows with the ranks.
    """

    def __init__(self, wires: Wires, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None):
        shape = (schedule.num_ranks, schedule.num_steps)
        if delay_s is not None and (np.shape(delay_s) != shape or not (np.asarray(delay_s) >= 0).all()):
            raise InputError(f"delay_s must have one delay of 0 or more per rank and step, so the shape {shape}")
        self.nodes = nodes
        self.finished: simpy.Event = wires.env.event()
        self.wires = wires
        self._engine = wires.engine
        self.schedule = schedule
        self._num_steps = schedule.num_steps
        self._delay_s = None if delay_s is None else np.asarray(delay_s, dtype=float)
        self.steps: dict[int, OpenStep] = {}
        self._nodes_key = nodes.tobytes()
        self._kept = wires.plans.kept(schedule)
        self._entered = [False] * schedule.num_ranks
        self.reached_steps = [-1] * schedule.num_ranks  # step that each rank has come to
        self._end_s = np.full(schedule.num_ranks, np.nan)
        self._num_left = schedule.num_ranks
        self._waiting: dict[int, list[tuple[int, simpy.Event]]] = {}
        self.awaited_steps = [
            schedule.num_steps + 1
        ] * schedule.num_ranks  # nearest step of each rank that is waited for
        if not schedule.num_ranks:
            self._engine.tell(self.finished, PlayTimes(self._end_s))

    def enter(self, *ranks: int) -> None:
        """Let ranks take part from now on."""
        self.wires.before_acting()
        for rank in ranks:
            self._note_entry(rank)
        for rank in ranks:
            self._advance(rank, 0)
        self.wires.after_acting()

    def enter_at(self, times_s: list[float]) -> None:
        """Let every rank take part from its own time on, none of which is before now."""
        for rank, time_s in enumerate(times_s):
            self._note_entry(rank)
            if time_s > self._engine.now_s:
                self._engine.pause(time_s, self, rank)
            else:
                self._advance(rank, 0)

    def done(self, rank: int) -> simpy.Event:
        """Return an event that fires when this rank has finished its part."""
        return self.reached(rank, self._num_steps)

    def reached(self, rank: int, step: int) -> simpy.Event:
        """Return an event that fires when this rank has finished every step before `step`."""
        event = self.wires.env.event()
        if self.reached_steps[rank] >= step:
            event.succeed()
        else:
            self._waiting.setdefault(rank, []).append((step, event))
            self.awaited_steps[rank] = min(step, self.awaited_steps[rank])
        return event

    def resume(self, rank: int) -> None:
        """Let a rank go on whose pause is over, before it enters or before its messages of a step."""
        step = self.reached_steps[rank]
        if step < 0:
            self._advance(rank, 0)
        elif self.steps[step].unfinished[rank]:
            self.steps[step].admit(rank)
        else:
            self.leave_step(rank, step)

    def may_repeat(self, step: int) -> bool:
        """Return whether the step after this one is like it, and nobody pauses."""
        if self._delay_s is not None or step + 1 >= self._num_steps:
            return False
        return self.wires.plans.alike_until(self.schedule, step, step + 1, self.wires.adds) > step

    def most_repeats(self, period: int) -> int:
        """Return how often so many steps fit in before a step that somebody waits for, or the end."""
        ahead = [min(due, self._num_steps) - 1 for due in self.awaited_steps]
        rooms = [due - step for due, step in zip(ahead, self.reached_steps, strict=True)]
        return min(min(rooms), self._num_steps - 1 - max(self.steps)) // period

    def num_alike(self, step: int, most: int) -> int:
        """Return how many steps, at most so many, follow the open ones and are the same as `step` and all of those."""
        last = max(self.steps)
        return self.wires.plans.alike_until(self.schedule, step, last + most, self.wires.adds) - last

    def shift(self, steps: int) -> None:
        """Let every rank have done so many steps more, all of which are alike."""
        self.reached_steps = [reached + steps for reached in self.reached_steps]
        self.steps = {number + steps: open_step for number, open_step in self.steps.items()}
        for number, open_step in self.steps.items():
            open_step.number = number

    def leave_step(self, rank: int, step: int) -> None:
        """Take a rank to the step behind one whose messages it has done."""
        open_step = self.steps[step]
        open_step.num_to_leave -= 1
        if not open_step.num_to_leave:
            del self.steps[step]
        self._advance(rank, step + 1)

    def _note_entry(self, rank: int) -> None:
        if self._entered[rank]:
            raise InputError(f"rank {rank} has entered this collective before")
        self._entered[rank] = True

    def _advance(self, rank: int, step: int) -> None:
        """Take a rank to a step, through those in which it has nothing to do, or out at the end."""
        if not rank:
            self._engine.stepped = self
        while True:
            self.reached_steps[rank] = step
            if step >= self.awaited_steps[rank]:
                self._tell(rank, step)
            if step == self._num_steps:
                self._finish(rank)
                return
            open_step = self.steps.get(step) or self._open(step)
            if open_step.delay_s is not None and open_step.delay_s[rank] > 0:
                self._engine.pause(self._engine.now_s + open_step.delay_s[rank], self, rank)
                return
            if open_step.unfinished[rank]:
                open_step.admit(rank)
                return
            open_step.num_to_leave -= 1
            if not open_step.num_to_leave:
                del self.steps[step]
            step += 1

    def _open(self, step: int) -> OpenStep:
        plan = self._kept.get((self._nodes_key, step)) or self.wires.plans.step(self.schedule, self.nodes, step)
        delay_s = None if self._delay_s is None else self._delay_s[:, step].tolist()
        open_step = self.steps[step] = OpenStep(self, step, plan, delay_s)
        return open_step

    def _tell(self, rank: int, step: int) -> None:
        """Fire what waits for this rank to have come this far."""
        waiting = self._waiting.pop(rank)
        for _, event in (entry for entry in waiting if entry[0] <= step):
            self._engine.tell(event)
        later = [entry for entry in waiting if entry[0] > step]
        if later:
            self._waiting[rank] = later
        self.awaited_steps[rank] = min((entry[0] for entry in later), default=self._num_steps + 1)

    def _finish(self, rank: int) -> None:
        self._end_s[rank] = self._engine.now_s
        self._num_left -= 1
        if not self._num_left:
            self._engine.tell(self.finished, PlayTimes(self._end_s))


class OpenStep:
    """A step that ranks have reached and not all have left; the sender of its messages.

    `unfinished` [num_ranks] are the messages of each rank that have not ended.
    """

    __slots__ = ("_absent", "_adds", "_plan", "collective", "delay_s", "num_to_leave", "number", "unfinished")

    def __init__(self, collective: Collective, number: int, plan: Plan, delay_s: list[float] | None):
        self.number = number
        self.delay_s = delay_s
        self.num_to_leave = len(collective.nodes)
        self.unfinished = plan.pattern.num_messages.copy()
        self.collective = collective
        self._plan = plan
        self._adds = plan.reduce if collective.wires.adds else None
        self._absent = plan.pattern.num_ends.copy()  # ends of each message that have not come

    def standing(self) -> tuple[list[int], list[int]]:
        """Return how many messages of each rank have not ended, and how many ends of each message are to come."""
        return self.unfinished.copy(), self._absent.copy()

    def admit(self, rank: int) -> None:
        """Let a rank send and receive, and those of its messages start whose other end is here."""
        (pattern, num_bytes, _), absent = self._plan, self._absent
        engine = self.collective.wires.engine
        for message in pattern.messages[rank]:
            absent[message] -= 1
            if not absent[message]:
                path = pattern.paths[message]
                flow = Flow(path, num_bytes[message], 1.0, self, message)
                engine.arrivals.add(engine.now_s + path.latency_s, flow)

    def ended(self, flow: Flow) -> None:
        """Note that a message has arrived; where the receiver adds it, that comes next."""
        message = flow.message
        if self._adds is not None and self._adds[message]:
            num_bytes = flow.num_bytes * BYTES_MOVED_PER_ADDED
            adding = Flow(self._adding_path(message), num_bytes, 1.0, Added(self), message)
            self.collective.wires.engine.start(adding)
        else:
            self.over(message)

    def over(self, message: int) -> None:
        """Note that a message is done with, and with it the step for ranks that have no more."""
        unfinished, pattern = self.unfinished, self._plan.pattern
        src, dst = pattern.src[message], pattern.dst[message]
        unfinished[src] -= 1
        if not unfinished[src]:
            self.collective.leave_step(src, self.number)
        if dst != src:
            unfinished[dst] -= 1
            if not unfinished[dst]:
                self.collective.leave_step(dst, self.number)

    def _adding_path(self, message: int) -> Path:
        collective = self.collective
        rank = self._plan.pattern.dst[message]
        return collective.wires.known_paths.adding(int(collective.nodes[rank]), rank)


class Added:
    """The sender of a message that has arrived and is being added in the receiver's memory."""

    __slots__ = ("step",)

    def __init__(self, step: OpenStep):
        self.step = step

    def ended(self, flow: Flow) -> None:
        """Note that the message is added."""
        self.step.over(flow.message)
