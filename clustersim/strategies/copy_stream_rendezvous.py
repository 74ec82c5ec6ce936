"""A rendezvous whose servers are GPUs that copy as TensorFlow has them: one copy after another, and onto idle GPUs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import simpy

from clustersim.collectives import Step
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange
from clustersim.execution.worker import BucketId, Process
from clustersim.program import Bucket
from clustersim.strategies.server_rendezvous import PullSource, ServerRendezvous, ServerShare

_TOGETHER_S = 1e-6
"""GPUs that begin within so much of each other begin together: no kernel is given to one in less."""


class CopyStreamRendezvous(ServerRendezvous):
    """A rendezvous at which the next copy of a memory is given when the one before it has ended.

    What a GPU has is copied to others one by one (`in_one_stream`), and to itself not at all: it has that at once, from
    as many ranks behind those that give.

    A copy also waits until the GPU that gets it has computed what it had been given when the copy was. Hosts give a GPU
    all that it computes with the last of the parameters, and copies of gradients behind it. So one of `receivers`, the
    ranks that get each bucket, is waited for until it has computed where it had begun before the sender, and else not.
    """

    num_ends: ClassVar[int] = 3

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        shares: Sequence[Sequence[ServerShare]],
        together: bool,
        receivers: Sequence[Sequence[int]],
    ):
        super().__init__(job, exchanges, shares, in_turn=False, together=together)
        self._receivers = receivers
        self._queues: dict[Hashable, deque[PullSource]] = {}  # of a memory: who gives, and who is to come after

    @property
    def awaits_receivers(self) -> bool:
        return not self._job.is_staged and any(self._receivers)

    def receivers_ahead(self, where: BucketId) -> list[int]:
        rank, iteration, bucket = where
        if not self.awaits_receivers:
            return []
        begin_s = self._job.times.begin_s[:, iteration]
        return [other for other in self._receivers[bucket] if begin_s[other] < begin_s[rank] - _TOGETHER_S]

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Take a rank through the collective of its bucket, when those that get it have computed."""
        for other in self.receivers_ahead(where):
            yield self._job.computed(other, where[1])
        self._job.times.enter_s[where] = self._job.env.now
        yield from super().exchange(where, bucket, pushed)

    def _hand_out(self, giver: PullSource) -> None:
        """Let a worker have what lies in its own memory, and the giver enter behind those before it."""
        giver.collective.enter(giver.rank + giver.num_givers)
        queue = self._queues.setdefault(giver.memory, deque())
        queue.append(giver)
        if len(queue) == 1:
            self._give(queue)

    def _give(self, queue: deque[PullSource]) -> None:
        """Let the first giver of a queue enter."""
        giver = queue[0]
        giver.collective.done(giver.rank).callbacks.append(partial(self._given, queue))
        giver.collective.enter(giver.rank)

    def _given(self, queue: deque[PullSource], event: simpy.Event) -> None:
        """Take the first giver, who has given all, out of its queue, and let the next one enter."""
        queue.popleft()
        if queue:
            self._give(queue)


def in_one_stream(pull: Step, nodes: Sequence[Hashable], num_givers: int) -> list[Step]:
    """Return a pull of ranks on `nodes` as steps: each memory's own first, from givers of its own, others one by one.

    >>> pull = Step.of([2, 2, 3, 3], [0, 1, 0, 1], 1.0)
    >>> [(step.src.tolist(), step.dst.tolist()) for step in in_one_stream(pull, ["a", "b", "a", "b"], num_givers=2)]
    [([4, 5], [0, 1]), ([2, 3], [1, 0])]
    """
    is_own = np.array([nodes[src] == nodes[dst] for src, dst in zip(pull.src.tolist(), pull.dst.tolist(), strict=True)])
    own, others = (Step(*(column[chosen] for column in pull)) for chosen in (is_own, ~is_own))
    steps = [own._replace(src=own.src + num_givers)] if len(own.src) else []
    return steps + (one_by_one(others) if len(others.src) else [])


def one_by_one(step: Step) -> list[Step]:
    """Return a step's messages as steps in which each rank sends one at most, in the order in which they stand.

    >>> [part.dst.tolist() for part in one_by_one(Step.of([4, 4, 5, 4], [0, 1, 0, 2], 1.0))]
    [[0, 0], [1], [2]]
    """
    sent = Counter[int]()
    turns = np.zeros(len(step.src), dtype=np.int64)
    for number, src in enumerate(step.src.tolist()):
        turns[number] = sent[src]
        sent[src] += 1
    return [Step(*(column[turns == turn] for column in step)) for turn in range(int(turns.max()) + 1)]
