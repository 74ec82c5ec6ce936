"""Ranks of a layout of whom the first of each stage plays its program, and the others do as it does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
import simpy

from clustersim.execution.folded_layout_collectives import FoldedLayoutCollectives, each_end_s
from clustersim.execution.job import Job
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.execution.mailbox import Message
from clustersim.execution.rank_iteration import RankIteration
from clustersim.execution.worker import Process
from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.parallelism import Grid
from clustersim.program import Bucket
from clustersim.program.loop import Loop, early_cycles
from clustersim.program.ops import Send
from clustersim.shortcuts.folding import Folding
from clustersim.shortcuts.micro_batch_cycle import RankCounts


class _Progress:
    """How far the first rank of a stage has come in an iteration: which buckets are ready, and the end."""

    __slots__ = ("over", "ready")

    def __init__(self, env: simpy.Environment, num_buckets: int):
        self.ready = [env.event() for _ in range(num_buckets)]
        self.over = env.event()


class FoldedLayoutExecutor(LayoutExecutor):
    """A executor of whom the first rank of each stage plays its program; `fold` says who sends and exchanges with it.

    Whether the others would do the same at the same time is looked at as far as it shows.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        watched: Collection[int],
        fold: Folding,
    ):
        super().__init__(network, gpus, grid, fold.programs, algorithm, transport, watched, fold.timed_bytes, True)
        self._fold = fold
        self._collectives = self._folded = FoldedLayoutCollectives(
            network, gpus, grid, algorithm, transport, self._devices, fold
        )
        self._each = grid.num_ranks // grid.pipeline
        self._beside, self._all = np.array(fold.beside), np.array(fold.exchanging)
        self._progress: dict[tuple[int, int], _Progress] = {}
        self._unsent: dict[tuple[int, int], float] = {}  # bytes to a stage that ranks like this one did not send

    def work(
        self, ranks: np.ndarray, job: Job, place: int, iteration: int, hand_over: Callable[[int, Bucket], None] | None
    ) -> Process:
        """Play one iteration of the rank `ranks[place]`, or hand over what the first of its stage hands over."""
        rank, buckets = int(ranks[place]), job.plans(place, iteration).buckets
        progress = self._progress_of(self.lead(rank), iteration, len(buckets))

        def ready(number: int, bucket: Bucket) -> None:
            self._folded.exchanging.add(self._grid.stage(rank))
            if hand_over is not None:
                hand_over(number, bucket)
            progress.ready[number].succeed()

        if rank == self.lead(rank):
            self._folded.exchanging.discard(self._grid.stage(rank))
            yield from super().work(ranks, job, place, iteration, ready)
            progress.over.succeed()
            return
        times = job.times
        times.extend_to(iteration)
        times.begin_s[place, iteration] = times.forward_s[place, iteration] = self._env.now
        for number, bucket in enumerate(buckets):
            if not progress.ready[number].processed:
                yield progress.ready[number]
            if hand_over is not None:
                hand_over(number, bucket)
        if not progress.over.processed:
            yield progress.over
        times.computed_s[place, iteration] = self._env.now

    def _loops(self) -> list[Loop | None]:
        """Return what comes again in the program of each stage, messages of late micro-batches aside."""
        loops, fold = super()._loops(), self._fold
        if not fold.meets_exchange:
            return loops
        first_late = self._num_micro - fold.num_late
        rows = zip(fold.programs, loops, strict=True)
        return [loop and early_cycles(program, loop, first_late) for program, loop in rows]

    def _tally(self, turn: RankIteration) -> RankCounts:
        """Return what a rank has counted by now, with the bytes to each stage that ranks like it did not send."""
        tally = super()._tally(turn)
        unsent = [self._unsent.get((turn.rank, stage), 0.0) for stage in range(self._grid.pipeline)]
        return tally._replace(counted=np.append(tally.counted, unsent))

    def _count(self, turn: RankIteration, more: np.ndarray) -> None:
        """Add to what a rank has counted."""
        super()._count(turn, more)
        for stage, num_bytes in enumerate(more[-self._grid.pipeline :].tolist()):
            if num_bytes:
                self._unsent[turn.rank, stage] += num_bytes

    def lead(self, rank: int) -> int:
        """Return the rank whose program is played for this one: the first of its stage."""
        return rank // self._each * self._each

    def stands_in(self, rank: int) -> int:
        """Return the rank that exchanges gradients for this one, over links like its own."""
        place = rank % self._grid.tensor
        return rank - place + self._fold.columns.stands_in[place]

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        return (self._fold.shortcut, *super().shortcuts[1:])

    def whole_bytes(self, played: np.ndarray, num_iterations: int) -> np.ndarray:
        """Return the bytes of an iteration [num_links], of so many of which these were played in the mean."""
        topology, whole = self._network.topology, played.copy()
        others = np.setdiff1d(self._all, self._beside)
        for (rank, stage), num_bytes in self._unsent.items():
            for other in (rank + others).tolist():
                src, dst = (int(topology.gpus[self._gpus[end]]) for end in (other, self._grid.in_stage(other, stage)))
                whole[topology.route(src, dst)] += num_bytes / num_iterations
        for own, instead in self._fold.columns.links:
            whole[instead] = whole[own]
        return super().whole_bytes(whole, num_iterations)

    def _progress_of(self, rank: int, iteration: int, num_buckets: int) -> _Progress:
        where = (rank, iteration)
        if where not in self._progress:
            self._progress[where] = _Progress(self._env, num_buckets)
            self._progress.pop((rank, iteration - 2), None)
        return self._progress[where]

    def _send(self, turn: RankIteration, op: Send) -> None:
        """Let a message set off, and those of the ranks that do the same where that makes a difference."""
        rank = turn.rank
        meets = self._may_meet_exchange(turn, op)
        senders = rank + (self._all if meets else self._beside)
        if not meets:
            self._unsent[rank, op.stage] = self._unsent.get((rank, op.stage), 0.0) + op.num_bytes
        if len(senders) == 1:
            super()._send(turn, op)
            return
        message = self._mailbox.message(self._grid.in_stage(rank, op.stage), turn.iteration, op.key)
        turn.watch(message.arrived)
        message.sent_s = float(self._env.now)
        src, dst = self._gpus[senders], self._gpus[self._grid.in_stage(senders, op.stage)]
        arrived = self._network.transfers(src, dst, op.num_bytes)
        arrived.callbacks.append(partial(self._arrive, message))

    def _arrive(self, message: Message, arrived: simpy.Event) -> None:
        """Let a message arrive, and note whether those of the ranks that do the same arrived with it."""
        self._collectives.compare(each_end_s(arrived))
        message.arrive()

    def _may_meet_exchange(self, turn: RankIteration, op: Send) -> bool:
        """Say whether a message can be on its way while gradients of its sender's or its receiver's stage are."""
        if not self._fold.meets_exchange:
            return False
        num_micro = self._num_micro - self.course.num_fewer(turn.iteration)
        is_late = op.key.micro_batch >= num_micro - self._fold.num_late
        return is_late or bool(self._folded.exchanging & {self._grid.stage(turn.rank), op.stage})
