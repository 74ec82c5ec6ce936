"""The ranks of a collective in Python objects: each goes from step to step, gated by its own messages and pauses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.network.collective import Collective
from clustersim.network.flow import Flow, Path
from clustersim.network.paths import Paths
from clustersim.network.progress import MessageInFlight, is_held_back
from clustersim.network.python_engine.instants import InstantLoop
from clustersim.network.python_engine.open_step import Added, OpenStep
from clustersim.network.python_engine.plans import Plans

_SPARE_STEPS = 64  # left open although no rank is in them


class PythonRanks:
    """The positions of the ranks of a collective, from which follows what each message does.

    So memory grows with the ranks, however far they drift apart.
    """

    def __init__(self, collective: Collective, loop: InstantLoop, paths: Paths, plans: Plans, adds: bool):
        num_ranks = collective.schedule.num_ranks
        self.collective = collective
        self.loop = loop
        self.adds = adds
        self.steps: dict[int, OpenStep] = {}  # those with ranks in them, and some that ranks have left
        self.reached_steps = [-1] * num_ranks  # step that each rank has reached
        self.at_steps = [-1] * num_ranks  # step in which each rank sends and receives, -1 while it pauses
        self.unfinished = [0] * num_ranks  # messages of each rank's step that have not ended for it
        self.arrived: dict[int, set[int]] = {}  # by sender: eager messages that arrived before their receiver
        self._reached_s = [0.0] * num_ranks
        self._paths = paths
        self._plans = plans
        self._schedule = collective.schedule
        self._num_steps = collective.schedule.num_steps
        self._delay_s = collective.delay_s
        self._most_open = 2 * num_ranks + _SPARE_STEPS
        self._nodes_key = collective.nodes.tobytes()
        self._kept = plans.kept(collective.schedule)
        self._num_left = num_ranks
        self.awaited_steps = [self._num_steps + 1] * num_ranks  # nearest step of each rank that is waited for

    def enter(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        """Let ranks enter, each at its time, or now where that is past."""
        now_s = self.loop.now_s
        for rank, time_s in zip(ranks, times_s, strict=True):
            if time_s > now_s:
                self._reached_s[rank] = time_s
                self.loop.pause(time_s, self, rank)
            else:
                self._advance(rank, 0)

    def step_of(self, rank: int) -> int:
        """Return the step that a rank has reached: -1 before it enters, the number of steps when it is done."""
        return self.reached_steps[rank]

    def expect(self, rank: int, step: int) -> None:
        """Notify the collective when a rank has reached a step."""
        self.awaited_steps[rank] = min(step, self.awaited_steps[rank])

    def steps_of(self, ranks: Sequence[int]) -> list[int]:
        """Return the steps that ranks have reached [len(ranks)]."""
        return [self.reached_steps[rank] for rank in ranks]

    def expect_each(self, ranks: Sequence[int], step: int) -> None:
        """Notify the collective when each of some ranks has reached a step."""
        for rank in ranks:
            self.expect(rank, step)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each rank the step it has reached, when, and the one in which it sends and receives, or -1."""
        return np.array(self.reached_steps), np.array(self._reached_s), np.array(self.at_steps)

    def in_flight(self) -> list[MessageInFlight]:
        """Return the messages that have started and have not ended."""
        rows = []
        for time_s, flow in self.loop.in_flight():
            place = self.place(flow)
            if place is not None:
                is_on_wire = flow.bytes_per_s > 0
                end_s = time_s if is_on_wire else time_s + flow.uncontended_s
                narrowest = flow.path.narrowest
                is_slow = is_on_wire and narrowest is not None and is_held_back(flow.bytes_per_s, narrowest.bytes_per_s)
                rows.append(MessageInFlight(place[0], flow.message, end_s, place[1], is_slow))
        return rows

    def finish(self, end_s: np.ndarray) -> None:
        """Take all ranks to the end, at their times [num_ranks]."""
        self.reached_steps = [self._num_steps] * len(end_s)
        self.at_steps = [-1] * len(end_s)
        self._over(end_s)

    def skip(self, step: int, reached_s: np.ndarray) -> None:
        """Take all ranks to a step, which they reach at their times [num_ranks], and pause before it."""
        num_ranks = len(reached_s)
        self.reached_steps, self._reached_s = [step] * num_ranks, reached_s.tolist()
        self.at_steps, self.unfinished = [-1] * num_ranks, [0] * num_ranks
        self.arrived, self.steps = {}, {}
        self._open(step).num_inside = num_ranks
        until_s = reached_s if self._delay_s is None else reached_s + self._delay_s[:, step]
        for rank, time_s in enumerate(until_s.tolist()):
            self.loop.pause(time_s, self, rank)

    def place(self, flow: Flow) -> tuple[int, bool] | None:
        """Return the step of a message of this collective and whether it is being added; None for another flow."""
        sender = flow.sender
        step = sender.step if isinstance(sender, Added) else sender
        if not isinstance(step, OpenStep) or step.collective is not self:
            return None
        return step.number, step is not sender

    def resume(self, rank: int) -> None:
        """Let a rank go on after its pause, before it enters or before its messages of a step."""
        step = self.reached_steps[rank]
        if step < 0:
            self._advance(rank, 0)
        elif not self.steps[step].admit(rank):
            self.leave_step(rank)

    def leave_step(self, rank: int) -> None:
        """Take a rank to the step after its own, whose messages have ended."""
        step = self.reached_steps[rank]
        self.steps[step].num_inside -= 1
        self.at_steps[rank] = -1
        if self.arrived:
            self.arrived.pop(rank, None)
        self._advance(rank, step + 1)

    def adding_path(self, rank: int) -> Path:
        """Return the path of adding in a rank's memory."""
        return self._paths.adding(int(self.collective.nodes[rank]), rank)

    def _advance(self, rank: int, step: int) -> None:
        """Take a rank to a step, through those without messages for it, or out at the end."""
        now_s = self._reached_s[rank] = self.loop.now_s
        while True:
            self.reached_steps[rank] = step
            if step >= self.awaited_steps[rank]:
                self.awaited_steps[rank] = self._num_steps + 1
                self.collective.notify(rank, step)
            if step == self._num_steps:
                self._finish()
                return
            open_step = self.steps.get(step) or self._open(step)
            open_step.num_inside += 1
            if self._delay_s is not None:
                pause_s = self._delay_s.item(rank, step)
                if pause_s > 0:
                    self.loop.pause(now_s + pause_s, self, rank)
                    return
            if open_step.admit(rank):
                return
            open_step.num_inside -= 1
            step += 1

    def _open(self, step: int) -> OpenStep:
        """Return a new step; of steps without ranks, a few are kept for ranks that come later."""
        if len(self.steps) > self._most_open:
            self.steps = {number: open_step for number, open_step in self.steps.items() if open_step.num_inside}
        plan = self._kept.get((self._nodes_key, self._schedule.pattern(step)))
        if plan is None:
            plan = self._plans.step(self._schedule, self.collective.nodes, step)
        open_step = self.steps[step] = OpenStep(self, step, plan)
        return open_step

    def _finish(self) -> None:
        self._num_left -= 1
        if not self._num_left:
            self._over(np.array(self._reached_s))

    def _over(self, end_s: np.ndarray) -> None:
        """Tell the collective that all are done, and drop it and its steps, to leave no reference cycle."""
        self._num_left, self.steps = 0, {}
        self.collective.over(end_s)
        del self.collective
