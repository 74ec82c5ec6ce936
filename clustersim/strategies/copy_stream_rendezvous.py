"""A rendezvous at servers on GPUs that copy as in TensorFlow: one copy after another, and to idle GPUs."""

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
"""GPUs that begin within this time of each other begin together; no kernel is issued in less."""


class CopyStreamRendezvous(ServerRendezvous):
    """A rendezvous in which each memory sends one copy at a time.

    A server copies its share to the other GPUs one after another (`serial_pull`). The worker on its own GPU has the
    share at once; the server has a third rank for it, after the sending ranks.

    A copy also waits until the receiving GPU has finished the kernels issued before it. A host issues all kernels of an
    iteration when the last parameters have arrived, and the copies of gradients after them. So a copy waits for a rank
    in `receivers`, which receive each bucket, if that rank began its iteration before the sender; else it does not
    wait.
    """

    ranks_per_server: ClassVar[int] = 3

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        shares: Sequence[Sequence[ServerShare]],
        pulls_together: bool,
        receivers: Sequence[Sequence[int]],
    ):
        super().__init__(job, exchanges, shares, one_core=False, pulls_together=pulls_together)
        self._receivers = receivers
        self._queues: dict[Hashable, deque[PullSource]] = {}  # by memory: the copying source, then those that wait

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
        """Run a rank in the collective of its bucket, after the receivers ahead of it have computed."""
        for other in self.receivers_ahead(where):
            yield self._job.computed(other, where[1])
        self._job.times.enter_s[where] = self._job.env.now
        yield from super().exchange(where, bucket, pushed)

    def _start_pull(self, source: PullSource) -> None:
        """Give the worker in the same memory its share at once, and queue the copies to the others."""
        source.collective.enter(source.rank + source.num_servers)
        queue = self._queues.setdefault(source.memory, deque())
        queue.append(source)
        if len(queue) == 1:
            self._start_copies(queue)

    def _start_copies(self, queue: deque[PullSource]) -> None:
        """Start the copies of the first source in a queue."""
        source = queue[0]
        source.collective.done(source.rank).callbacks.append(partial(self._finish_copies, queue))
        source.collective.enter(source.rank)

    def _finish_copies(self, queue: deque[PullSource], event: simpy.Event) -> None:
        """Remove the first source from its queue and start the next one."""
        queue.popleft()
        if queue:
            self._start_copies(queue)


def serial_pull(pull: Step, nodes: Sequence[Hashable], num_servers: int) -> list[Step]:
    """Return a pull of ranks on `nodes` as steps: first to the worker in each memory, then to others one by one.

    Rank src + `num_servers` sends to the worker in the memory of rank src.

    >>> pull = Step.of([2, 2, 3, 3], [0, 1, 0, 1], 1.0)
    >>> [(step.src.tolist(), step.dst.tolist()) for step in serial_pull(pull, ["a", "b", "a", "b"], num_servers=2)]
    [([4, 5], [0, 1]), ([2, 3], [1, 0])]
    """
    is_own = np.array([nodes[src] == nodes[dst] for src, dst in zip(pull.src.tolist(), pull.dst.tolist(), strict=True)])
    own, others = (Step(*(column[chosen] for column in pull)) for chosen in (is_own, ~is_own))
    steps = [own._replace(src=own.src + num_servers)] if len(own.src) else []
    return steps + (serial_steps(others) if len(others.src) else [])


def serial_steps(step: Step) -> list[Step]:
    """Return the messages of a step as several steps, in which each rank sends at most one message, in their order.

    >>> [part.dst.tolist() for part in serial_steps(Step.of([4, 4, 5, 4], [0, 1, 0, 2], 1.0))]
    [[0, 0], [1], [2]]
    """
    num_sent = Counter[int]()
    positions = np.zeros(len(step.src), dtype=np.int64)
    for number, src in enumerate(step.src.tolist()):
        positions[number] = num_sent[src]
        num_sent[src] += 1
    return [Step(*(column[positions == position] for column in step)) for position in range(int(positions.max()) + 1)]
