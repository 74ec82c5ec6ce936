"""Runs the programs of all ranks of a layout: each rank that shares a copy of the model runs that of its stage."""

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
from clustersim.execution.worker import Process, copy_next_samples, wait_for_samples
from clustersim.hardware.sheet import Transport
from clustersim.network import Network, moment
from clustersim.parallelism import Grid
from clustersim.parallelism.plan import ACTIVATIONS, GRADIENTS, SAMPLES
from clustersim.program import Bucket
from clustersim.program.compute_sequence import ComputeSequence
from clustersim.program.issue import FASTEST, IssueTimes
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

OnReady = Callable[[int, Bucket], None]
"""Called with the number of a bucket that is ready, and the bucket."""

_HOST_OPS = (Copy, HostUpdate)
"""Operations of a rank's host, and copies to it and back."""

_CAUSES = {
    "bubble": "waited for the rank that sends it",
    "sending": "waited for the rank that gets it",
    "waiting": "waited for others of its group",
    "input": "its samples were not read and decoded yet",
}
"""Why a rank was idle, by the kind of the idle time."""

_ROUNDING = 1e-12

_UNISSUED = "its host had not issued the next kernel yet"

_TIMED = "collectives of GPUs that split layers as the time that one takes alone, where they are uncontended"

_EXTRAPOLATED = "identical micro-batches extrapolated: those that only repeated the ones before them were not simulated"


class LayoutExecutor:
    """Runs all ranks of a job on `gpus` [num_ranks]. The ranks form a `grid`; `programs` are those of its stages.

    Every message is assumed to have a receive buffer, so it is sent at once, while the sender goes on. `recorder`
    records the `watched` ranks.
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
        skips_cycles: bool = False,
    ):
        """Take programs; collectives that are known times in them send `timed_bytes` [num_links] in an iteration.

        With `skips_cycles`, micro-batches that only repeat earlier ones are not simulated.
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
        self._update_times_s: dict[int, list[float]] = {}
        self.recorder = TraceRecorder(watched)
        self._skips_cycles = skips_cycles

    @cached_property
    def stage_programs(self) -> StagePrograms:
        """The programs of all stages, divided into micro-batch cycles and the rest."""
        grid = self._grid
        simulated = dict.fromkeys(self.simulated_rank(rank) for rank in range(grid.num_ranks))
        loops = self._loops() if self._skips_cycles else []
        stages = {rank: grid.stage(rank) for rank in simulated}
        keeps_ops = len(simulated) == grid.num_ranks
        return StagePrograms(
            self._env, self._programs, loops, stages, lambda: self._network.link_bytes, keeps_ops=keeps_ops
        )

    def _loops(self) -> list[Loop | None]:
        """Return the loop in the program of each stage."""
        return [loop_of(program) for program in self._programs]

    def simulated_rank(self, rank: int) -> int:
        """Return the rank whose program is simulated for this rank: itself."""
        return rank

    def exchanging_rank(self, rank: int) -> int:
        """Return the rank whose gradient exchange is simulated for this rank: itself."""
        return rank

    @property
    def stayed_in_sync(self) -> bool:
        """Whether ranks that are assumed to do the same at the same time did so, as far as is known."""
        return self._collectives.stayed_in_sync

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Sentences that say which shortcuts were taken."""
        timed = () if self._timed_bytes is None else (_TIMED,)
        return (*timed, _EXTRAPOLATED) if self.stage_programs.skipped else timed

    def all_link_bytes(self, simulated: np.ndarray, num_iterations: int) -> np.ndarray:
        """Return the bytes of a mean iteration [num_links], those of messages that were not simulated included.

        `simulated` [num_links] are those that the network carried in a mean iteration of `num_iterations`.
        """
        return simulated if self._timed_bytes is None else simulated + self._timed_bytes

    def in_flight(self) -> list[simpy.Event]:
        """Return the arrival events of messages still in flight: those of micro-batches after the job's last one."""
        return self._mailbox.in_flight()

    def update_times_s(self, rank: int) -> list[float]:
        """Return the time of each update of a rank in seconds, where every micro-batch makes one; else nothing."""
        return self._update_times_s.get(self.simulated_rank(rank), [])

    def work(self, ranks: np.ndarray, job: Job, place: int, iteration: int, on_ready: OnReady | None) -> Process:
        """Run one iteration of the rank `ranks[place]` of all ranks, which has the index `place` in its job."""
        yield from self._work(ranks, job, place, iteration, on_ready, on_ready is not None)

    def _work(
        self, ranks: np.ndarray, job: Job, place: int, iteration: int, on_ready: OnReady | None, issues_buckets: bool
    ) -> Process:
        """Run one iteration; with `issues_buckets` the host issues the exchange of each bucket that is ready."""
        stage = self._grid.stage(int(ranks[place]))
        state = RankIteration(job, place, int(ranks[place]), iteration, stage, issues_buckets)
        self._begin(state)
        state.cycles = cycles = self.stage_programs.cycles(iteration)
        if cycles is None:
            yield from self._run_ops(state, self.stage_programs.whole(stage), on_ready)
        else:
            rank_cycles = cycles.rank_cycles[state.rank]
            yield from self._run_ops(state, self.stage_programs.before(stage), on_ready)
            for ops in self.stage_programs.each_cycle(stage, rank_cycles):
                state.rank_cycles = None if cycles.is_over else cycles.begin(state.rank, self._counts(state))
                yield from self._run_ops(state, ops, on_ready)
            state.rank_cycles = None
            self._end_cycles(state, cycles, rank_cycles)
            yield from self._run_ops(state, self.stage_programs.after(stage, cycles.num_skipped), on_ready)
        if state.unsent is not None:
            yield from self._send_and_wait(state, state.unsent)
            self._await_message(state)
        self._end(state)

    def _begin(self, state: RankIteration) -> None:
        """Begin a rank's iteration."""
        job, place, iteration = state.job, state.place, state.iteration
        job.times.extend_to(iteration)
        job.times.begin_s[place, iteration] = job.times.forward_s[place, iteration] = self._env.now
        if job.input_stage is not None:
            job.times.fetched_s[place, iteration] = self._env.now
        self._devices[state.rank] = job.devices[place]
        self.recorder.begin(state.rank)

    def _end(self, state: RankIteration) -> None:
        """End a rank's iteration, up to the exchange of gradients."""
        job, place, iteration = state.job, state.place, state.iteration
        job.issuing_since_s[place] = state.host_until_s
        job.note_computed(place, iteration)
        job.times.slowed_s[place, iteration] += job.devices[place].take_lost_s()
        copy_next_samples(job, place)
        self.recorder.end(state.rank, iteration)

    def _run_ops(self, state: RankIteration, ops: Iterable[Op | ComputeSequence], on_ready: OnReady | None) -> Process:
        """Run operations one after the other; those that need not be waited for go on in the background."""
        job, place, iteration, rank_cycles = state.job, state.place, state.iteration, state.rank_cycles
        buckets = job.plans(place, iteration).buckets
        for op in ops:
            if rank_cycles is not None:
                rank_cycles.note_op()
            if state.unsent is not None:
                self._expect_reply(state, op, state.unsent)
                if not _comes_before(op, state.unsent):
                    yield from self._send_and_wait(state, state.unsent)
                    self._await_message(state)
                    state.unsent = None
            if isinstance(op, ComputeSequence):
                yield from self._compute(state, op)
            elif isinstance(op, Call):
                yield from self._issue(state, self._programs[state.stage].exchange_s)
                called = self._collectives.call(state.rank, iteration, op, state.done_event(op.after))
                state.collectives[op.key] = called
                state.watch(called[1])
            elif isinstance(op, Wait):
                yield from self._wait(state, op.key)
            elif isinstance(op, Receive):
                message_s = self._programs[state.stage].message_s
                if op.awaited:  # the sender waits until it is issued
                    yield from self._issue(state, message_s)
                if not self._is_before_job(op, iteration):
                    yield from self._receive(state, op)
                if not op.awaited:  # issued while the message is on its way
                    yield from self._issue(state, message_s)
                self._await_message(state)
            elif isinstance(op, Send):
                yield from self._issue(state, self._programs[state.stage].message_s)
                self._await_message(state)
                if op.awaited:
                    state.unsent = op
                else:
                    self._send(state, op)
            elif isinstance(op, _HOST_OPS):
                yield from self._issue(state, self._programs[state.stage].exchange_s)
                note = partial(self._note, state.rank)
                state.host_ops[op.key] = self._host.begin(job, place, op, state.done_event(op.after), note)
                state.watch(state.host_ops[op.key])
            elif isinstance(op, Read) and job.input_stage is not None:
                start_s = float(self._env.now)
                yield from wait_for_samples(job, place)
                state.host_until_s = max(state.host_until_s, float(self._env.now))  # the host waits for them
                self._note_idle(state, start_s, float(self._env.now), "input", op.key)
            elif isinstance(op, Ready) and on_ready is not None:
                if state.issues_buckets and self._grid.num_replicas > 1:
                    yield from self._issue(state, self._programs[state.stage].exchange_s)
                on_ready(op.bucket, buckets[op.bucket])

    def _issue(self, state: RankIteration, host_s: float) -> Process:
        """Wait until the host has issued the next operation, which takes it `host_s` seconds."""
        if not host_s:
            return
        state.host_until_s += host_s
        start_s = float(self._env.now)
        if state.host_until_s > start_s:
            yield moment(self._env, state.host_until_s, state.job.devices[state.place].number)
            state.job.times.host_s[state.place, state.iteration] += state.host_until_s - start_s
            self._note(state.rank, "host", start_s, "", _UNISSUED, 0)

    def _await_message(self, state: RankIteration) -> None:
        """Let the host wait for its GPU, if its program does so at every message."""
        if self._programs[state.stage].host_awaits_messages:
            state.host_until_s = max(state.host_until_s, float(self._env.now))

    def _counts(self, state: RankIteration) -> RankCounts:
        """Return the counters of a rank's iteration so far: seconds by column, and entries of its recorder."""
        waited_s = float(state.job.times.host_s[state.place, state.iteration])
        return RankCounts(state.durations_s(), self.recorder.num_entries(state.rank), state.host_until_s, waited_s)

    def _add_counts(self, state: RankIteration, more: np.ndarray) -> None:
        """Add to the counters of a rank."""
        state.add_durations(more)

    def _end_cycles(self, state: RankIteration, cycles: MicroBatchCycles, rank_cycles: RankCycles) -> None:
        """Add the counts and the trace entries of a rank's skipped cycles: those of the last cycle, each time."""
        cycles.end()
        if rank_cycles.repeated is not None:
            before, after = rank_cycles.repeated
            self._add_counts(state, cycles.num_skipped * (after.counted - before.counted))
            ahead_s = after.host_until_s - before.host_until_s - cycles.cycle_s
            state.host_until_s += cycles.num_skipped * ahead_s
            entries = RepeatedEntries(
                before.num_entries, after.num_entries, cycles.num_skipped, cycles.cycle_s, self.stage_programs.step
            )
            self.recorder.repeat(state.rank, entries)

    def _compute(self, state: RankIteration, sequence: ComputeSequence) -> Process:
        """Compute a sequence: in one go where the GPU's pace is constant, else one operation after the other."""
        job, place, iteration, slowdown = state.job, state.place, state.iteration, state.slowdown
        env, times, gpu = self._env, job.times, job.devices[place]
        is_exact = self._network.exact
        is_watched = self.recorder.watches(state.rank)
        notes_updates = sequence.has_update and self._programs[self._grid.stage(state.rank)].staleness is not None
        for part in (sequence,) if job.paces is None else sequence.apart():
            start_s = float(env.now)
            host_s, issue = state.host_until_s, part.issue
            if not is_exact and slowdown >= FASTEST and job.paces is None:
                issue = part.binding
            pieces, waited_s = yield from gpu.compute_issued(part.total_s, slowdown, issue, host_s, is_exact)
            state.host_until_s += part.issue.host_s
            times.host_s[place, iteration] += waited_s
            for called_s in part.called_s:
                times.called_s[place, iteration] += called_s
            if part.last_forward < 0 and not is_watched and not notes_updates:
                continue
            if waited_s and not pieces:
                pieces = _idle_pieces(issue, start_s, host_s, slowdown)
            ends_s = _ends_s(start_s, [each * slowdown for each in part.seconds], pieces, float(env.now))
            if part.last_forward >= 0:
                times.forward_s[place, iteration] = ends_s[part.last_forward]
            if is_watched:
                self._note_computes(state, part, start_s, ends_s)
            if notes_updates:
                updates_s = (end_s for op, end_s in zip(part.ops, ends_s, strict=True) if op.phase == UPDATE)
                self._update_times_s.setdefault(state.rank, []).extend(updates_s)

    def _note_computes(
        self, state: RankIteration, sequence: ComputeSequence, start_s: float, ends_s: Sequence[float]
    ) -> None:
        """Record each operation of a sequence that begins at `start_s` and has its ends at `ends_s` seconds."""
        for op, end_s in zip(sequence.ops, ends_s, strict=True):
            self.recorder.note(state.rank, op.phase, start_s, end_s, op.name, "", op.micro_batch)
            start_s = end_s

    def _wait(self, state: RankIteration, key: Key) -> Process:
        """Wait for the end of a collective, or of an operation of the host."""
        start_s = float(self._env.now)
        if key in state.host_ops:
            if not state.host_ops[key].processed:
                yield state.host_ops[key]
            state.job.times.offload_s[state.place, state.iteration] += float(self._env.now) - start_s
            self._note(state.rank, "offload", start_s, key.what, "waited for its host", key.micro_batch)
            return
        collective, done = state.collectives[key]
        if not done.processed:
            yield done
        kind = "input" if key.what == SAMPLES else "waiting"
        self._note_idle(state, start_s, collective.last_call_s, kind, key)

    def _note_idle(self, state: RankIteration, start_s: float, sent_s: float, kind: str, key: Key) -> None:
        """Record that a rank was idle from `start_s` until now.

        Until `sent_s` it waited for the work of other ranks (`kind`), and then for messages (exposed communication).
        """
        now_s = float(self._env.now)
        if now_s <= start_s:
            return
        times, place, iteration = state.job.times, state.place, state.iteration
        split_s, cause = min(max(sent_s, start_s), now_s), _CAUSES[kind]
        kind = "bubble" if kind == "sending" else kind
        kind = "waiting" if kind == "bubble" and self._grid.tiled else kind  # tiles and paths are no pipeline
        if kind == "input":
            so_far_s = np.fmax(times.fetched_s[place, iteration], times.begin_s[place, iteration])
            times.fetched_s[place, iteration] = so_far_s + split_s - start_s
        else:
            column = times.bubble_s if kind == "bubble" else times.called_waiting_s
            if split_s > start_s:
                column[place, iteration] += split_s - start_s
        if now_s > split_s:
            times.called_s[place, iteration] += now_s - split_s
        if self.recorder.watches(state.rank):
            self.recorder.note(state.rank, kind, start_s, split_s, key.what, cause, key.micro_batch)
            self.recorder.note(state.rank, "exposed", split_s, now_s, key.what, "", key.micro_batch)

    def _note(self, rank: int, kind: str, start_s: float, name: str, cause: str, micro_batch: int) -> None:
        """Record a span that ends now."""
        self.recorder.note(rank, kind, start_s, float(self._env.now), name, cause, micro_batch)

    def _is_before_job(self, op: Receive, iteration: int) -> bool:
        """Say whether a message is of a micro-batch before the job's first one, so that no rank sends it.

        Where iterations flow into one another, the job begins as if these micro-batches were in the pipeline.
        """
        if op.key.micro_batch >= 0:
            return False
        first = -(self._programs[op.stage].staleness or 0)
        return iteration * self._num_micro + op.key.micro_batch < first

    def _receive(self, state: RankIteration, op: Receive) -> Process:
        """Wait for a message from another stage."""
        start_s, message = float(self._env.now), self._mailbox.message(state.rank, state.iteration, op.key)
        if op.awaited:
            message.expect()
        if not message.arrived.processed:
            yield message.arrived
        self._mailbox.take(state.rank, state.iteration, op.key)
        self._note_idle(state, start_s, message.sent_s, "bubble", op.key)

    def _send(self, state: RankIteration, op: Send) -> None:
        """Send a message to the rank in the same place of another stage, and go on at once."""
        peer = self._grid.in_stage(state.rank, op.stage)
        message = self._mailbox.message(peer, state.iteration, op.key)
        message.sent_s = float(self._env.now)
        state.watch(message.arrived)
        src, dst = int(self._gpus[state.rank]), int(self._gpus[peer])
        if state.job.is_staged:
            self._env.process(self._send_staged(state.job.devices[state.place], src, dst, op.num_bytes, message))
        else:
            self._network.transfer(src, dst, op.num_bytes).callbacks.append(message.arrive)

    def _send_and_wait(self, state: RankIteration, op: Send) -> Process:
        """Wait until the receiver expects the message, send it, and wait until it has arrived."""
        start_s = float(self._env.now)
        message = self._mailbox.message(self._grid.in_stage(state.rank, op.stage), state.iteration, op.key)
        if not message.expected.processed:
            yield message.expected
        self._send(state, op)
        sent_s = float(self._env.now)
        yield message.arrived
        self._note_idle(state, start_s, sent_s, "sending", op.key)

    def _expect_reply(self, state: RankIteration, op: Op | ComputeSequence, unsent: Send) -> None:
        """Expect the other message of a pair before the rank's own is sent, so that both can be in flight at once."""
        if isinstance(op, Receive) and unsent.paired and op.stage == unsent.stage:
            self._mailbox.message(state.rank, state.iteration, op.key).expect()

    def _send_staged(self, gpu: GpuDevice, src: int, dst: int, num_bytes: float, message: Message) -> Process:
        """Send a message from one GPU to another through the memory of their hosts."""
        memory = self._network.topology.memory
        yield from gpu.copy_out(num_bytes)
        yield self._network.transfer(Node(memory[src]), Node(memory[dst]), num_bytes)
        arrived = self._network.transfer(Node(memory[dst]), dst, num_bytes)
        arrived.callbacks.append(message.arrive)


def _comes_before(op: Op | ComputeSequence, unsent: Send) -> bool:
    """Say whether a rank runs an operation before it sends `unsent`: activations are received before gradients go.

    The messages of a pair are in flight at the same time, so their order makes no difference.
    """
    if unsent.paired:
        return False
    return isinstance(op, Receive) and (op.key.what, unsent.key.what) == (ACTIVATIONS, GRADIENTS)


def _idle_pieces(issue: IssueTimes, start_s: float, host_s: float, slowdown: float) -> Pieces:
    """Return the times at which a GPU of constant speed stopped and went on because of its host, and the work by then.

    It starts at `start_s` with the host at `host_s`.
    """
    pieces, now_s, done_s = [], start_s, 0.0
    for work_s, issued_s in issue.rows:
        now_s, done_s = now_s + (work_s - done_s) * slowdown, work_s
        if host_s + issued_s > now_s:
            pieces += [(now_s, work_s * slowdown), (host_s + issued_s, work_s * slowdown)]
            now_s = host_s + issued_s
    return pieces


def _ends_s(start_s: float, seconds: Sequence[float], pieces: Pieces, end_s: float) -> list[float]:
    """Return the end of each operation of a sequence, whose durations at full speed are `seconds`.

    `pieces` are the times at which the speed changed, and the seconds of work that were done by then. An operation ends
    before a wait that follows it.
    """
    if len(seconds) == 1:
        return [end_s]
    if not pieces:
        return [*(start_s + done_s for done_s in accumulate(seconds[:-1])), end_s]
    times_s, done_s = zip(*pieces, strict=True)
    done = np.cumsum(seconds)
    just_before = done[:-1] - _ROUNDING * done[-1]
    ends_s: list[float] = np.interp(just_before, [0.0, *done_s, done[-1]], [start_s, *times_s, end_s]).tolist()
    return [*ends_s, end_s]
