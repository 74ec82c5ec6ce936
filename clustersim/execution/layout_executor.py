"""Ranks over which copies of a model are laid, each playing the program of its stage on the clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate

import numpy as np
import simpy

from clustersim.devices import GpuDevice, Pieces
from clustersim.execution.host_work import HostWork
from clustersim.execution.job import Job
from clustersim.execution.layout_collectives import LayoutCollectives
from clustersim.execution.mailbox import Mailbox, Message
from clustersim.execution.rank_iteration import RankIteration
from clustersim.execution.trace import RepeatedEntries, TraceRecorder
from clustersim.execution.worker import Process, send_for_samples, take_samples
from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.parallelism import Grid
from clustersim.parallelism.plan import ACTIVATIONS, GRADIENTS, SAMPLES
from clustersim.program import Bucket
from clustersim.program.compute_sequence import ComputeSequence
from clustersim.program.loop import Loop, loop_of
from clustersim.program.ops import (
    UPDATE,
    Call,
    Copy,
    HostUpdate,
    Key,
    Op,
    Program,
    Read,
    Ready,
    Receive,
    Send,
    Wait,
)
from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCounts, RankCycles
from clustersim.shortcuts.stage_programs import StagePrograms
from clustersim.topology import Node

_ON_HOST = (Copy, HostUpdate)
"""What a rank's host does, or copies to it and back."""

_CAUSES = {
    "bubble": "waited for the rank that sends it",
    "handing over": "waited for the rank that gets it",
    "waiting": "waited for others of its group",
    "input": "its samples were not read and decoded yet",
}
"""Why a rank has been idle, by what the time counts as."""

_TIMED = "collectives of GPUs that split layers as the time that one takes alone, where they meet nobody else"


_REPEATED = "micro-batches multiplied: those that only repeated what those before them did were not played"


class LayoutExecutor:
    """All ranks of a job on `gpus` [num_ranks], who stand on a grid; `programs` are those of its stages.

    What is sent is taken to have a buffer that waits for it, so that it sets off at once, and what has to be computed
    goes on beside it. `watched` ranks note in a recorder what they do.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        programs: Sequence[Program],
        algorithm: str,
        transport: Transport,
        watched: Collection[int],
        timed_bytes: np.ndarray | None = None,
        leaves_out: bool = False,
    ):
        """`timed_bytes` [num_links] are those that an iteration sends in collectives that are time in programs.

        With `leaves_out`, what ranks only repeat is not played.
        """
        self._network, self._env = network, network.env
        self._timed_bytes = timed_bytes
        self._gpus, self._grid, self._programs = gpus, grid, programs
        self._num_micro = max(program.num_micro_batches for program in programs)
        self._devices: dict[int, GpuDevice] = {}  # of the ranks that have begun
        self._mailbox = Mailbox(network.env, self._num_micro)
        is_timed = timed_bytes is not None
        self._collectives = LayoutCollectives(network, gpus, grid, algorithm, transport, self._devices, is_timed)
        self._host = HostWork()
        self._updated_s: dict[int, list[float]] = {}
        self.recorder = TraceRecorder(watched)
        self._leaves_out = leaves_out

    @cached_property
    def course(self) -> StagePrograms:
        """The way of all ranks through their programs."""
        grid = self._grid
        leads = dict.fromkeys(self.lead(rank) for rank in range(grid.num_ranks))
        loops = self._loops() if self._leaves_out else []
        stages = {rank: grid.stage(rank) for rank in leads}
        everybody = len(leads) == grid.num_ranks
        return StagePrograms(
            self._env, self._programs, loops, stages, lambda: self._network.link_bytes, keeps=everybody
        )

    def _loops(self) -> list[Loop | None]:
        """Return what comes again in the program of each stage."""
        return [loop_of(program) for program in self._programs]

    def work(
        self, ranks: np.ndarray, job: Job, place: int, iteration: int, hand_over: Callable[[int, Bucket], None] | None
    ) -> Process:
        """Play one iteration of the rank `ranks[place]` of all, which is number `place` of its job."""
        turn, stage = RankIteration(job, place, int(ranks[place]), iteration), self._grid.stage(int(ranks[place]))
        self._begin(turn)
        turn.cycles = cycles = self.course.cycles(iteration)
        if cycles is None:
            yield from self._go_through(turn, self.course.whole(stage), hand_over)
        else:
            runner = cycles.runners[turn.rank]
            yield from self._go_through(turn, self.course.before(stage), hand_over)
            for ops in self.course.each_cycle(stage, runner):
                turn.runner = None if cycles.is_over else cycles.begin(turn.rank, self._tally(turn))
                yield from self._go_through(turn, ops, hand_over)
            turn.runner = None
            self._end_cycles(turn, cycles, runner)
            yield from self._go_through(turn, self.course.after(stage, cycles.num_left_out), hand_over)
        if turn.unsent is not None:
            yield from self._hand_over(turn, turn.unsent)
        self._end(turn)

    def _go_through(
        self, turn: RankIteration, ops: Iterable[Op | ComputeSequence], hand_over: Callable[[int, Bucket], None] | None
    ) -> Process:
        """Do one thing after the other, and let those go on beside it that nobody waits for."""
        job, place, iteration, runner = turn.job, turn.place, turn.iteration, turn.runner
        buckets = job.plans(place, iteration).buckets
        for op in ops:
            if runner is not None:
                runner.note()
            if turn.unsent is not None:
                self._announce(turn, op, turn.unsent)
                if not _comes_before(op, turn.unsent):
                    yield from self._hand_over(turn, turn.unsent)
                    turn.unsent = None
            if isinstance(op, ComputeSequence):
                yield from self._compute(turn, op)
            elif isinstance(op, Call):
                called = self._collectives.call(turn.rank, iteration, op, turn.end_of(op.after))
                turn.called[op.key] = called
                turn.watch(called[1])
            elif isinstance(op, Wait):
                yield from self._wait(turn, op.key)
            elif isinstance(op, Receive):
                if not self._is_there_already(op, iteration):
                    yield from self._receive(turn, op)
            elif isinstance(op, Send):
                if op.awaited:
                    turn.unsent = op
                else:
                    self._send(turn, op)
            elif isinstance(op, _ON_HOST):
                note = partial(self._note, turn.rank)
                turn.aside[op.key] = self._host.begin(job, place, op, turn.end_of(op.after), note)
                turn.watch(turn.aside[op.key])
            elif isinstance(op, Read) and job.input_stage is not None:
                start_s = float(self._env.now)
                yield from take_samples(job, place)
                self._idle(turn, start_s, float(self._env.now), "input", op.key)
            elif isinstance(op, Ready) and hand_over is not None:
                hand_over(op.bucket, buckets[op.bucket])

    def _tally(self, turn: RankIteration) -> RankCounts:
        """Return what a rank has counted by now of its iteration: seconds, and rows of its recorder."""
        return RankCounts(turn.lasted_s(), self.recorder.num_rows(turn.rank))

    def _count(self, turn: RankIteration, more: np.ndarray) -> None:
        """Add to what a rank has counted."""
        turn.last(more)

    def _end_cycles(self, turn: RankIteration, cycles: MicroBatchCycles, runner: RankCycles) -> None:
        """Count what a rank would have done in cycles that were left out, as often as it has been left out."""
        cycles.end()
        if runner.repeated is not None:
            before, after = runner.repeated
            self._count(turn, cycles.num_left_out * (after.counted - before.counted))
            rows = RepeatedEntries(
                before.num_rows, after.num_rows, cycles.num_left_out, cycles.cycle_s, self.course.step
            )
            self.recorder.repeat(turn.rank, rows)

    def lead(self, rank: int) -> int:
        """Return the rank whose program is played for this one: its own."""
        return rank

    @property
    def has_kept_together(self) -> bool:
        """Whether ranks that are taken to do the same at the same time did so, as far as is known."""
        return self._collectives.has_kept_together

    def stands_in(self, rank: int) -> int:
        """Return the rank that exchanges gradients for this one: itself."""
        return rank

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        timed = () if self._timed_bytes is None else (_TIMED,)
        return (*timed, _REPEATED) if self.course.left_out else timed

    def whole_bytes(self, played: np.ndarray, num_iterations: int) -> np.ndarray:
        """Return the bytes of an iteration [num_links], of so many of which these were played in the mean."""
        return played if self._timed_bytes is None else played + self._timed_bytes

    def under_way(self) -> list[simpy.Event]:
        """Return the arrivals of messages that nobody waits for: those of micro-batches that the job ended before."""
        return self._mailbox.under_way()

    def updated_s(self, rank: int) -> list[float]:
        """Return when a rank made each update of its own, where every micro-batch makes one: from the first one on."""
        return self._updated_s.get(self.lead(rank), [])

    def _begin(self, turn: RankIteration) -> None:
        """Begin a rank's iteration."""
        job, place, iteration = turn.job, turn.place, turn.iteration
        job.times.extend_to(iteration)
        job.times.begin_s[place, iteration] = job.times.forward_s[place, iteration] = self._env.now
        if job.input_stage is not None:
            job.times.fetched_s[place, iteration] = self._env.now
        self._devices[turn.rank] = job.devices[place]
        self.recorder.begin(turn.rank)

    def _end(self, turn: RankIteration) -> None:
        """End a rank's iteration, but for the exchange of gradients."""
        job, place, iteration = turn.job, turn.place, turn.iteration
        job.note_computed(place, iteration)
        job.times.slowed_s[place, iteration] += job.devices[place].take_lost_s()
        send_for_samples(job, place)
        self.recorder.end(turn.rank, iteration)

    def _compute(self, turn: RankIteration, stretch: ComputeSequence) -> Process:
        """Compute one thing after the other, at once where the GPU's pace is always the same."""
        job, place, iteration, slowdown = turn.job, turn.place, turn.iteration, turn.slowdown
        env, times, gpu = self._env, job.times, job.devices[place]
        is_watched = self.recorder.watches(turn.rank)
        has_own = stretch.has_update and self._programs[self._grid.stage(turn.rank)].staleness is not None
        for now in (stretch,) if job.paces is None else stretch.apart():
            start_s = float(env.now)
            pieces = yield from gpu.compute(now.total_s * slowdown)
            for called_s in now.called_s:
                times.called_s[place, iteration] += called_s
            if now.last_forward < 0 and not is_watched and not has_own:
                continue
            ends_s = _ends_s(start_s, [each * slowdown for each in now.seconds], pieces, float(env.now))
            if now.last_forward >= 0:
                times.forward_s[place, iteration] = ends_s[now.last_forward]
            if is_watched:
                self._note_each(turn, now, start_s, ends_s)
            if has_own:
                own = (end_s for op, end_s in zip(now.ops, ends_s, strict=True) if op.phase == UPDATE)
                self._updated_s.setdefault(turn.rank, []).extend(own)

    def _note_each(
        self, turn: RankIteration, stretch: ComputeSequence, start_s: float, ends_s: Sequence[float]
    ) -> None:
        """Note what has been computed in the recorder."""
        for op, end_s in zip(stretch.ops, ends_s, strict=True):
            self.recorder.note(turn.rank, op.phase, start_s, end_s, op.name, "", op.micro_batch)
            start_s = end_s

    def _wait(self, turn: RankIteration, key: Key) -> Process:
        """Wait for the end of a collective, or of what the host does."""
        start_s = float(self._env.now)
        if key in turn.aside:
            if not turn.aside[key].processed:
                yield turn.aside[key]
            turn.job.times.offload_s[turn.place, turn.iteration] += float(self._env.now) - start_s
            self._note(turn.rank, "offload", start_s, key.what, "waited for its host", key.micro_batch)
            return
        meeting, done = turn.called[key]
        if not done.processed:
            yield done
        self._idle(turn, start_s, meeting.last_s, "input" if key.what == SAMPLES else "waiting", key)

    def _idle(self, turn: RankIteration, start_s: float, set_off_s: float, kind: str, key: Key) -> None:
        """Note that a rank has been idle until now: for somebody else's work, and then for what was on its way."""
        now_s = float(self._env.now)
        if now_s <= start_s:
            return
        times, place, iteration = turn.job.times, turn.place, turn.iteration
        turn_s, cause = min(max(set_off_s, start_s), now_s), _CAUSES[kind]
        kind = "bubble" if kind == "handing over" else kind
        kind = "waiting" if kind == "bubble" and self._grid.tiled else kind  # tiles and paths are no pipeline
        if kind == "input":
            so_far_s = np.fmax(times.fetched_s[place, iteration], times.begin_s[place, iteration])
            times.fetched_s[place, iteration] = so_far_s + turn_s - start_s
        else:
            column = times.bubble_s if kind == "bubble" else times.called_waiting_s
            if turn_s > start_s:
                column[place, iteration] += turn_s - start_s
        if now_s > turn_s:
            times.called_s[place, iteration] += now_s - turn_s
        if self.recorder.watches(turn.rank):
            self.recorder.note(turn.rank, kind, start_s, turn_s, key.what, cause, key.micro_batch)
            self.recorder.note(turn.rank, "exposed", turn_s, now_s, key.what, "", key.micro_batch)

    def _note(self, rank: int, kind: str, start_s: float, name: str, cause: str, micro_batch: int) -> None:
        """Note what has ended now."""
        self.recorder.note(rank, kind, start_s, float(self._env.now), name, cause, micro_batch)

    def _is_there_already(self, op: Receive, iteration: int) -> bool:
        """Say whether nobody sends a message: the job begins with micro-batches on their way where iterations flow."""
        if op.key.micro_batch >= 0:
            return False
        first = -(self._programs[op.stage].staleness or 0)
        return iteration * self._num_micro + op.key.micro_batch < first

    def _receive(self, turn: RankIteration, op: Receive) -> Process:
        """Wait for what another stage hands over."""
        start_s, message = float(self._env.now), self._mailbox.message(turn.rank, turn.iteration, op.key)
        if op.awaited:
            message.expect()
        if not message.arrived.processed:
            yield message.arrived
        self._mailbox.take(turn.rank, turn.iteration, op.key)
        self._idle(turn, start_s, message.sent_s, "bubble", op.key)

    def _send(self, turn: RankIteration, op: Send) -> None:
        """Let a message set off to the rank in the same place of another stage."""
        peer = self._grid.in_stage(turn.rank, op.stage)
        message = self._mailbox.message(peer, turn.iteration, op.key)
        message.sent_s = float(self._env.now)
        turn.watch(message.arrived)
        src, dst = int(self._gpus[turn.rank]), int(self._gpus[peer])
        if turn.job.is_staged:
            self._env.process(self._carry(turn.job.devices[turn.place], src, dst, op.num_bytes, message))
        else:
            self._network.transfer(src, dst, op.num_bytes).callbacks.append(message.arrive)

    def _announce(self, turn: RankIteration, op: Op | ComputeSequence, unsent: Send) -> None:
        """Let the other rank of a pair of messages know that this one waits for its, before its own is handed over."""
        if isinstance(op, Receive) and unsent.paired and op.stage == unsent.stage:
            self._mailbox.message(turn.rank, turn.iteration, op.key).expect()

    def _hand_over(self, turn: RankIteration, op: Send) -> Process:
        """Wait until the other rank is there, let a message set off, and wait until it has arrived."""
        start_s = float(self._env.now)
        message = self._mailbox.message(self._grid.in_stage(turn.rank, op.stage), turn.iteration, op.key)
        if not message.awaited.processed:
            yield message.awaited
        self._send(turn, op)
        set_off_s = float(self._env.now)
        yield message.arrived
        self._idle(turn, start_s, set_off_s, "handing over", op.key)

    def _carry(self, gpu: GpuDevice, src: int, dst: int, num_bytes: float, message: Message) -> Process:
        """Send a message from one GPU to another through the memory of their hosts."""
        memory = self._network.topology.memory
        yield from gpu.copy_out(num_bytes)
        yield self._network.transfer(Node(memory[src]), Node(memory[dst]), num_bytes)
        arrived = self._network.transfer(Node(memory[dst]), dst, num_bytes)
        arrived.callbacks.append(message.arrive)


def _comes_before(op: Op | ComputeSequence, unsent: Send) -> bool:
    """Say whether a rank receives something before it sends what is unsent: activations before gradients.

    What is paired is on its way at the same time, and whose wait is over first makes no difference.
    """
    if unsent.paired:
        return False
    return isinstance(op, Receive) and (op.key.what, unsent.key.what) == (ACTIVATIONS, GRADIENTS)


def _ends_s(start_s: float, seconds: Sequence[float], pieces: Pieces, end_s: float) -> list[float]:
    """Return when each of some things ended that were computed one after the other, each so long at full speed.

    `pieces` are when the speed changed meanwhile, and what had been done by then.
    """
    if len(seconds) == 1:
        return [end_s]
    if not pieces:
        return [*(start_s + done_s for done_s in accumulate(seconds[:-1])), end_s]
    times_s, done_s = zip(*pieces, strict=True)
    done = np.cumsum(seconds)
    ends_s: list[float] = np.interp(done, [0.0, *done_s, done[-1]], [start_s, *times_s, end_s]).tolist()
    return ends_s
