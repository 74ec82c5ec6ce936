"""A collective on its way through a network: ranks enter one by one, messages go out, ranks are done."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.engine import Engine
from clustersim.network.flow import Flow, Path
from clustersim.network.open_step import Added, OpenStep
from clustersim.network.paths import Paths
from clustersim.network.plans import Plans

_SPARE_STEPS = 64  # that are kept open although nobody is in them

Standing = tuple[list[int], list[int], list[tuple[int, tuple[int, ...]]]]
"""Steps that ranks have come to, messages that they wait for, and eager messages that wait for them."""


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
    collectives: dict[Collective, None]

    def before_acting(self) -> None: ...
    def after_acting(self) -> None: ...


class Collective:
    """One collective in progress. `finished` fires, with `PlayTimes`, when every rank is done.

    A message starts when both its ends have reached its step (rendezvous), an eager one when its sender has. A
    rank goes on when its own messages of the step have ended, after its own pause. What a message does follows
    from where its ranks are, so memory grows with the ranks, however far they drift apart.
    """

    def __init__(self, wires: Wires, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None):
        shape = (schedule.num_ranks, schedule.num_steps)
        if delay_s is not None and (np.shape(delay_s) != shape or not (np.asarray(delay_s) >= 0).all()):
            raise InputError(f"delay_s must have one delay of 0 or more per rank and step, so the shape {shape}")
        num_ranks = schedule.num_ranks
        self.nodes = nodes
        self.finished: simpy.Event = wires.env.event()
        self.wires = wires
        self.engine = wires.engine
        self.adds = wires.adds
        self.schedule = schedule
        self._num_steps = schedule.num_steps
        self._delay_s = None if delay_s is None else np.asarray(delay_s, dtype=float)
        self._most_open = 2 * num_ranks + _SPARE_STEPS
        self._nodes_key = nodes.tobytes()
        self._kept = wires.plans.kept(schedule)
        self._entered = [False] * num_ranks
        self.steps: dict[int, OpenStep] = {}  # those that ranks are in, and some that they have been in
        self.reached_steps = [-1] * num_ranks  # step that each rank has come to
        self.at_steps = [-1] * num_ranks  # step in which each rank sends and receives, -1 while it pauses
        self.unfinished = [0] * num_ranks  # messages of each rank's step that are not over for it
        self.arrived: dict[int, set[int]] = {}  # by sender: eager messages that are there before their receiver
        self._end_s = np.full(num_ranks, np.nan)
        self._num_left = num_ranks
        self._waiting: dict[int, list[tuple[int, simpy.Event]]] = {}
        self.awaited_steps = [self._num_steps + 1] * num_ranks  # nearest step of each rank that is waited for
        if num_ranks:
            wires.collectives[self] = None
        else:
            self.engine.tell(self.finished, PlayTimes(self._end_s))

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
            if time_s > self.engine.now_s:
                self.engine.pause(time_s, self, rank)
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

    def awaited_outside(self) -> list[int]:
        """Return the ranks that have not entered, for whose part or whole somebody waits who is no rank here."""
        awaits_all = bool(self.finished.callbacks) and max(self.at_steps, default=-1) < 0
        return [rank for rank, has in enumerate(self._entered) if not has and (awaits_all or rank in self._waiting)]

    def resume(self, rank: int) -> None:
        """Let a rank go on whose pause is over, before it enters or before its messages of a step."""
        step = self.reached_steps[rank]
        if step < 0:
            self._advance(rank, 0)
        elif not self.steps[step].admit(rank):
            self.leave_step(rank)

    def may_repeat(self, step: int) -> bool:
        """Return whether the step after this one is like it, and nobody pauses."""
        if self._delay_s is not None or step + 1 >= self._num_steps:
            return False
        return self.wires.plans.alike_until(self.schedule, step, step + 1, self.wires.adds) > step

    def most_repeats(self, period: int) -> int:
        """Return how often so many steps fit in before a step that somebody waits for, or the end."""
        ahead = [min(due, self._num_steps) - 1 for due in self.awaited_steps]
        rooms = [due - step for due, step in zip(ahead, self.reached_steps, strict=True)]
        return min(rooms) // period

    def num_alike(self, step: int, most: int) -> int:
        """Return how many steps, at most so many, follow the last reached and are as `step` and all since then."""
        last = max(self.reached_steps)
        return self.wires.plans.alike_until(self.schedule, step, last + most, self.wires.adds) - last

    def standing(self) -> Standing:
        """Return where the ranks are, none of which pauses, and what is over for them."""
        arrived = sorted((rank, tuple(sorted(messages))) for rank, messages in self.arrived.items())
        return self.reached_steps.copy(), self.unfinished.copy(), arrived

    def place(self, flow: Flow) -> tuple[int, bool] | None:
        """Return the step of a message of this collective and whether it is being added; None if it is no such."""
        sender = flow.sender
        step = sender.step if isinstance(sender, Added) else sender
        if not isinstance(step, OpenStep) or step.collective is not self:
            return None
        return step.number, step is not sender

    def shift(self, steps: int) -> None:
        """Let every rank have done so many steps more, all of which are alike."""
        self.reached_steps = [reached + steps for reached in self.reached_steps]
        self.at_steps = self.reached_steps.copy()  # nobody pauses
        self.steps = {number + steps: open_step for number, open_step in self.steps.items() if open_step.num_inside}
        for number, open_step in self.steps.items():
            open_step.number = number

    def leave_step(self, rank: int) -> None:
        """Take a rank to the step behind its own, whose messages it has done."""
        step = self.reached_steps[rank]
        self.steps[step].num_inside -= 1
        self.at_steps[rank] = -1
        if self.arrived:
            self.arrived.pop(rank, None)
        self._advance(rank, step + 1)

    def adding_path(self, rank: int) -> Path:
        """Return the path of adding in a rank's memory."""
        return self.wires.known_paths.adding(int(self.nodes[rank]), rank)

    def _note_entry(self, rank: int) -> None:
        if self._entered[rank]:
            raise InputError(f"rank {rank} has entered this collective before")
        self._entered[rank] = True

    def _advance(self, rank: int, step: int) -> None:
        """Take a rank to a step, through those in which it has nothing to do, or out at the end."""
        if not rank:
            self.engine.stepped = self
        while True:
            self.reached_steps[rank] = step
            if step >= self.awaited_steps[rank]:
                self._tell(rank, step)
            if step == self._num_steps:
                self._finish(rank)
                return
            open_step = self.steps.get(step) or self._open(step)
            open_step.num_inside += 1
            if self._delay_s is not None:
                pause_s = self._delay_s.item(rank, step)
                if pause_s > 0:
                    self.engine.pause(self.engine.now_s + pause_s, self, rank)
                    return
            if open_step.admit(rank):
                return
            open_step.num_inside -= 1
            step += 1

    def _open(self, step: int) -> OpenStep:
        """Return a step that nobody is in; of those that have been left, a few are kept for ranks that come later."""
        if len(self.steps) > self._most_open:
            self.steps = {number: open_step for number, open_step in self.steps.items() if open_step.num_inside}
        plan = self._kept.get((self._nodes_key, self.schedule.pattern(step)))
        if plan is None:
            plan = self.wires.plans.step(self.schedule, self.nodes, step)
        open_step = self.steps[step] = OpenStep(self, step, plan)
        return open_step

    def _tell(self, rank: int, step: int) -> None:
        """Fire what waits for this rank to have come this far."""
        waiting = self._waiting.pop(rank)
        for _, event in (entry for entry in waiting if entry[0] <= step):
            self.engine.tell(event)
        later = [entry for entry in waiting if entry[0] > step]
        if later:
            self._waiting[rank] = later
        self.awaited_steps[rank] = min((entry[0] for entry in later), default=self._num_steps + 1)

    def _finish(self, rank: int) -> None:
        self._end_s[rank] = self.engine.now_s
        self._num_left -= 1
        if not self._num_left:
            del self.wires.collectives[self]
            self.engine.tell(self.finished, PlayTimes(self._end_s))
