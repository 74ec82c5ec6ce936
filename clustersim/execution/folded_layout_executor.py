"""Runs a layout in which all ranks of a stage do the same at the same time: only the first of each is simulated."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
import simpy

from clustersim.execution.folded_layout_collectives import FoldedLayoutCollectives, ends_s
from clustersim.execution.job import Job
from clustersim.execution.layout_executor import LayoutExecutor, OnReady
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
    """The progress of the first rank of a stage in an iteration: events of each bucket, and of the end.

    At the end its host has issued all passes at `issuing_since_s`, and goes on with the update.
    """

    __slots__ = ("done", "issuing_since_s", "ready")

    def __init__(self, env: simpy.Environment, num_buckets: int):
        self.ready = [env.event() for _ in range(num_buckets)]
        self.done = env.event()
        self.issuing_since_s = 0.0


class FoldedLayoutExecutor(LayoutExecutor):
    """Runs the program of the first rank of each stage only.

    `folding` says which other ranks send messages and exchange gradients with it. Whether these really end at the same
    time is checked as far as it can be seen (`stayed_in_sync`).
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        watched: Collection[int],
        folding: Folding,
    ):
        super().__init__(
            network, gpus, grid, folding.programs, algorithm, transport, watched, folding.timed_bytes, skips_cycles=True
        )
        self._folding = folding
        self._collectives = self._folded = FoldedLayoutCollectives(
            network, gpus, grid, algorithm, transport, self._devices, folding
        )
        self._stage_size = grid.num_ranks // grid.pipeline
        self._senders, self._exchanging = np.array(folding.senders), np.array(folding.exchanging)
        self._progress: dict[tuple[int, int], _Progress] = {}
        self._unsent_bytes: dict[tuple[int, int], float] = {}  # of (rank, stage): not sent by the ranks like this one

    def work(self, ranks: np.ndarray, job: Job, place: int, iteration: int, on_ready: OnReady | None) -> Process:
        """Run one iteration of the rank `ranks[place]`: simulate the first rank of a stage, let others follow it."""
        rank, buckets = int(ranks[place]), job.plans(place, iteration).buckets
        progress = self._progress_of(self.simulated_rank(rank), iteration, len(buckets))

        def ready(number: int, bucket: Bucket) -> None:
            self._folded.exchanging.add(self._grid.stage(rank))
            if on_ready is not None:
                on_ready(number, bucket)
            progress.ready[number].succeed()

        if rank == self.simulated_rank(rank):
            self._folded.exchanging.discard(self._grid.stage(rank))
            yield from self._work(ranks, job, place, iteration, ready, on_ready is not None)
            progress.issuing_since_s = job.issuing_since_s[place]
            progress.done.succeed()
            return
        times = job.times
        times.extend_to(iteration)
        times.begin_s[place, iteration] = times.forward_s[place, iteration] = self._env.now
        for number, bucket in enumerate(buckets):
            if not progress.ready[number].processed:
                yield progress.ready[number]
            if on_ready is not None:
                on_ready(number, bucket)
        if not progress.done.processed:
            yield progress.done
        times.computed_s[place, iteration] = self._env.now
        job.issuing_since_s[place] = progress.issuing_since_s

    def _progress_of(self, rank: int, iteration: int, num_buckets: int) -> _Progress:
        key = (rank, iteration)
        if key not in self._progress:
            self._progress[key] = _Progress(self._env, num_buckets)
            self._progress.pop((rank, iteration - 2), None)
        return self._progress[key]

    def simulated_rank(self, rank: int) -> int:
        """Return the rank whose program is simulated for this rank: the first of its stage."""
        return rank // self._stage_size * self._stage_size

    def exchanging_rank(self, rank: int) -> int:
        """Return the rank whose gradient exchange is simulated for this rank, over isomorphic links."""
        place = rank % self._grid.tensor
        return rank - place + self._folding.tensor_places.representative[place]

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Sentences that say which shortcuts were taken."""
        return (self._folding.shortcut, *super().shortcuts[1:])

    def all_link_bytes(self, simulated: np.ndarray, num_iterations: int) -> np.ndarray:
        """Return the bytes of a mean iteration [num_links], those of ranks that were not simulated included."""
        topology, whole = self._network.topology, simulated.copy()
        others = np.setdiff1d(self._exchanging, self._senders)
        for (rank, stage), num_bytes in self._unsent_bytes.items():
            for other in (rank + others).tolist():
                src, dst = (int(topology.gpus[self._gpus[end]]) for end in (other, self._grid.in_stage(other, stage)))
                whole[topology.route(src, dst)] += num_bytes / num_iterations
        for simulated_links, images in self._folding.tensor_places.links:
            whole[images] = whole[simulated_links]
        return super().all_link_bytes(whole, num_iterations)

    def _loops(self) -> list[Loop | None]:
        """Return the loop in the program of each stage, without late messages that may meet the gradient exchange."""
        loops, folding = super()._loops(), self._folding
        if not folding.meets_exchange:
            return loops
        first_late = self._num_micro - folding.num_late
        rows = zip(folding.programs, loops, strict=True)
        return [loop and early_cycles(program, loop, first_late) for program, loop in rows]

    def _counts(self, state: RankIteration) -> RankCounts:
        """Return the counters of a rank so far, with the bytes to each stage that ranks like it did not send."""
        counts = super()._counts(state)
        unsent = [self._unsent_bytes.get((state.rank, stage), 0.0) for stage in range(self._grid.pipeline)]
        return counts._replace(counted=np.append(counts.counted, unsent))

    def _add_counts(self, state: RankIteration, more: np.ndarray) -> None:
        """Add to the counters of a rank."""
        super()._add_counts(state, more)
        for stage, num_bytes in enumerate(more[-self._grid.pipeline :].tolist()):
            if num_bytes:
                self._unsent_bytes[state.rank, stage] += num_bytes

    def _send(self, state: RankIteration, op: Send) -> None:
        """Send a message, and those of ranks that do the same, where they share links or meet the gradient exchange."""
        rank = state.rank
        meets_exchange = self._may_meet_exchange(state, op)
        senders = rank + (self._exchanging if meets_exchange else self._senders)
        if not meets_exchange:
            self._unsent_bytes[rank, op.stage] = self._unsent_bytes.get((rank, op.stage), 0.0) + op.num_bytes
        if len(senders) == 1:
            super()._send(state, op)
            return
        message = self._mailbox.message(self._grid.in_stage(rank, op.stage), state.iteration, op.key)
        state.watch(message.arrived)
        message.sent_s = float(self._env.now)
        src, dst = self._gpus[senders], self._gpus[self._grid.in_stage(senders, op.stage)]
        arrived = self._network.transfers(src, dst, op.num_bytes)
        arrived.callbacks.append(partial(self._arrive, message))

    def _arrive(self, message: Message, arrived: simpy.Event) -> None:
        """Deliver a message, and check whether the messages of ranks that do the same arrived with it."""
        self._collectives.check_sync(ends_s(arrived))
        message.arrive()

    def _may_meet_exchange(self, state: RankIteration, op: Send) -> bool:
        """Say whether a message may be in flight while gradients of its sender's or receiver's stage are exchanged."""
        if not self._folding.meets_exchange:
            return False
        num_micro = self._num_micro - self.stage_programs.num_skipped_micro_batches(state.iteration)
        is_late = op.key.micro_batch >= num_micro - self._folding.num_late
        return is_late or bool(self._folded.exchanging & {self._grid.stage(state.rank), op.stage})
