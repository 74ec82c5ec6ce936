"""A step of a collective with ranks in it: which of its messages are sent, have arrived, and have ended."""

from __future__ import annotations

from typing import Protocol

from clustersim.network.flow import Flow, Path
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.network.python_engine.instants import InstantLoop
from clustersim.network.python_engine.plans import StepPlan


class StepRanks(Protocol):
    """What a step needs of its collective. Lists have an entry for each rank [num_ranks]."""

    reached_steps: list[int]  # step that each rank has reached, -1 before it enters
    at_steps: list[int]  # step in which each rank sends and receives, -1 while it pauses
    unfinished: list[int]  # its messages of that step that have not ended for it
    arrived: dict[int, set[int]]  # by sender: eager messages of its step that arrived before their receiver
    loop: InstantLoop
    adds: bool

    def leave_step(self, rank: int) -> None: ...
    def adding_path(self, rank: int) -> Path: ...


class OpenStep:
    """A step of a collective, and the sender of its messages.

    A message starts when both its ends are in the step (rendezvous) and ends for both at once. An eager one
    starts with its sender and ends for the sender on arrival. There it waits for its receiver.
    """

    __slots__ = ("_eager", "_num_bytes", "_own", "_paths", "_pattern", "_reduce", "collective", "num_inside", "number")

    def __init__(self, collective: StepRanks, number: int, plan: StepPlan):
        self.number = number
        self.collective = collective
        self.num_inside = 0  # ranks that have reached this step and not left it
        self._pattern, self._num_bytes, self._reduce, self._eager = plan
        self._own, self._paths = self._pattern.own, self._pattern.paths

    def admit(self, rank: int) -> bool:
        """Let a rank send and receive its own messages; return whether it has to wait for any."""
        own = self._own[rank]
        if not own:
            return False
        collective, number = self.collective, self.number
        at_steps = collective.at_steps
        at_steps[rank] = number
        collective.unfinished[rank] = len(own)
        if self._eager is not None:
            self._admit_eager(rank, own, self._eager)
            return collective.unfinished[rank] > 0
        loop, paths, num_bytes = collective.loop, self._paths, self._num_bytes
        arrivals, now_s = loop.arrivals, loop.now_s
        for message, other in own:
            if at_steps[other] == number:
                path = paths[message]
                arrivals.add(now_s + path.latency_s, Flow(path, num_bytes[message], 1.0, self, message))
        return True

    def _admit_eager(self, rank: int, own: list[tuple[int, int]], eager: list[bool]) -> None:
        collective, number, src = self.collective, self.number, self._pattern.src
        for message, other in own:
            if not eager[message]:
                starts = collective.at_steps[other] == number
            elif src[message] == rank:
                starts = True
            else:
                starts = False
                if self._has_arrived(message, other) and self._is_received(message):
                    collective.unfinished[rank] -= 1
            if starts:
                flow = Flow(self._paths[message], self._num_bytes[message], 1.0, self, message)
                collective.loop.post(flow, collective.loop.now_s)

    def _has_arrived(self, message: int, sender: int) -> bool:
        """Return whether an eager message has arrived: a sender goes on when its own messages have."""
        step = self.collective.reached_steps[sender]
        return step > self.number or (step == self.number and message in self.collective.arrived.get(sender, ()))

    def ended(self, flow: Flow) -> None:
        """Note that a message has arrived."""
        message, eager = flow.message, self._eager
        if eager is not None and eager[message]:
            self._eager_ended(message)
        elif not self.collective.adds or self._is_received(message):
            self.over(message)

    def _eager_ended(self, message: int) -> None:
        """Let the sender of an eager message go on, and its receiver if it is in this step."""
        collective = self.collective
        src, dst = self.ends(message)
        if collective.at_steps[dst] != self.number:
            collective.arrived.setdefault(src, set()).add(message)
        elif self._is_received(message):
            self._finish_one_of(dst)
        self._finish_one_of(src)

    def over(self, message: int) -> None:
        """Note that a message has ended for its receiver and, unless it was eager, for its sender."""
        pattern, eager, unfinished = self._pattern, self._eager, self.collective.unfinished
        src, dst = pattern.src[message], pattern.dst[message]
        if eager is None or not eager[message]:
            unfinished[src] -= 1
            if not unfinished[src]:
                self.collective.leave_step(src)
        if dst != src:
            unfinished[dst] -= 1
            if not unfinished[dst]:
                self.collective.leave_step(dst)

    def _is_received(self, message: int) -> bool:
        """Begin to add a message that has arrived, if the receiver adds it; return whether nothing is left to do."""
        collective = self.collective
        if not collective.adds or not self._reduce[message]:
            return True
        path = collective.adding_path(self._pattern.dst[message])
        num_bytes = self._num_bytes[message] * BYTES_MOVED_PER_ADDED
        if not path.links or not num_bytes:
            return True
        collective.loop.start(Flow(path, num_bytes, 1.0, Added(self), message))
        return False

    def _finish_one_of(self, rank: int) -> None:
        unfinished = self.collective.unfinished
        unfinished[rank] -= 1
        if not unfinished[rank]:
            self.collective.leave_step(rank)

    def missing(self, rank: int) -> list[int]:
        """Return the ranks that have not reached this step, and that a rank here waits for."""
        pattern, reached_steps = self._pattern, self.collective.reached_steps
        return [
            other
            for message, other in pattern.own[rank]
            if reached_steps[other] < self.number and not (self._is_eager(message) and pattern.dst[message] == other)
        ]

    def waiting_for(self, message: int, is_added: bool) -> tuple[int, ...]:
        """Return the ranks here that wait for a message that was sent, or is being added."""
        src, dst = self._pattern.src[message], self._pattern.dst[message]
        ends = (dst,) if is_added and self._is_eager(message) else tuple({src: None, dst: None})
        return tuple(rank for rank in ends if self.collective.at_steps[rank] == self.number)

    def ends(self, message: int) -> tuple[int, int]:
        """Return the ranks that send and receive a message."""
        return self._pattern.src[message], self._pattern.dst[message]

    def _is_eager(self, message: int) -> bool:
        return self._eager is not None and self._eager[message]


class Added:
    """The sender of a message that has arrived and is being added in the receiver's memory."""

    __slots__ = ("step",)

    def __init__(self, step: OpenStep):
        self.step = step

    def ended(self, flow: Flow) -> None:
        """Note that the message is added."""
        self.step.over(flow.message)
