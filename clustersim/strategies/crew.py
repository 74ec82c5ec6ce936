"""Ranks over which copies of a model are laid, each playing the program of its stage on the clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.network import Collective, Network, TransferTimes
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program import Bucket
from clustersim.program.ops import UPDATE, Call, Compute, Key, Program, Ready, Receive, Send, Wait
from clustersim.results import Spans
from clustersim.strategies.algorithm import schedule_collective, switches
from clustersim.strategies.day import Process
from clustersim.strategies.folding import Folding
from clustersim.strategies.job import Job
from clustersim.topology import Node

_AXES = {"replicas": REPLICAS, "data": ("context", "data"), "tiles": ("pipeline",)}
"""Axes of a program's groups that are several of the grid's; copies of an expert are along `data`."""


class _Letter:
    """A message on its way: when it set off, and the event of its arrival."""

    __slots__ = ("arrived", "sent_s")

    def __init__(self, env: simpy.Environment):
        self.arrived: simpy.Event = env.event()
        self.sent_s = float("inf")


class _Meeting:
    """A collective of a group: how many have entered it, and when the last of them did."""

    __slots__ = ("collective", "end_s", "last_s", "num_to_come")

    def __init__(self, collective: Collective, num_ranks: int):
        self.collective = collective
        self.num_to_come = num_ranks
        self.last_s = self.end_s = float("inf")


class _Progress:
    """How far a rank has come in an iteration, for those who follow it: which buckets are ready, and the end."""

    __slots__ = ("over", "ready")

    def __init__(self, env: simpy.Environment, num_buckets: int):
        self.ready = [env.event() for _ in range(num_buckets)]
        self.over = env.event()


class Crew:
    """All ranks of a job on `gpus` [num_ranks], who stand on a grid; `programs` are those of its stages.

    What is sent is taken to have a buffer that waits for it, so that it sets off at once, and what has to be computed
    goes on beside it. `watched` ranks note down what they do in their latest iteration. With a `fold` only the first
    rank of each stage plays its program, and the others do as it does.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        programs: Sequence[Program],
        algorithm: str,
        transport: str,
        watched: Collection[int],
        fold: Folding | None = None,
    ):
        self._network, self._env = network, network.env
        self._gpus, self._grid, self._fold = gpus, grid, fold
        self._programs = programs if fold is None else fold.programs
        self._progress: dict[tuple[int, int], _Progress] = {}
        self._unsent: dict[tuple[int, int], float] = {}  # bytes to a stage that ranks like this one did not send
        self.has_kept_together = True  # as far as is known, ranks that are played as one did the same at the same time
        self._num_begun = 0  # iterations of the first rank
        self._exchanging: set[int] = set()  # stages whose gradients may be on their way
        self._num_micro = max(program.num_micro_batches for program in programs)
        self._schedules: dict[tuple[str, int, str, float, int], tuple[Schedule, list[Hashable]]] = {}
        self._algorithm, self._transport = algorithm, transport
        self._letters: dict[tuple[int, int, Key], _Letter] = {}
        self._updated_s: dict[int, list[float]] = {}
        self._meetings: dict[tuple[str, int, int, Key], _Meeting] = {}
        self._groups: dict[tuple[str, int], tuple[int, ...]] = {}
        self._behind: dict[tuple[str, int], simpy.Event] = {}  # the last collective of a rank along an axis
        self._spans: dict[int, list[tuple[str, float, float, str, str]]] = {rank: [] for rank in watched}

    @property
    def watched(self) -> list[int]:
        """The ranks that note down what they do."""
        return sorted(self._spans)

    def spans(self) -> tuple[Spans, float]:
        """Return what watched ranks did in their latest iteration, from the first beginning on, and when that was."""
        spans = Spans()
        origin_s = min((rows[0][1] for rows in self._spans.values() if rows), default=0.0)
        for rank in sorted(self._spans):
            for kind, start_s, end_s, name, cause in self._spans[rank]:
                spans.add(kind, rank, 0, start_s - origin_s, end_s - origin_s, name, cause)
        return spans, origin_s

    def work(
        self, ranks: np.ndarray, job: Job, place: int, iteration: int, hand_over: Callable[[int, Bucket], None] | None
    ) -> Process:
        """Play one iteration of the rank `ranks[place]` of all, which is number `place` of its job."""
        rank, env, gpu, times = int(ranks[place]), self._env, job.devices[place], job.times
        buckets, slowdown = job.plans(place, iteration).buckets, job.slowdown(place, iteration)
        times.make_room(iteration)
        times.begin_s[place, iteration] = times.forward_s[place, iteration] = env.now
        if self.lead(rank) != rank:
            yield from self._do_alike(rank, job, place, iteration, hand_over)
            return
        progress = self._progress_of(rank, iteration, len(buckets))
        self._exchanging.discard(self._grid.stage(rank))
        self._num_begun += not rank
        if rank in self._spans:
            self._spans[rank].clear()
        waits: dict[Key, tuple[_Meeting, simpy.Event]] = {}
        program = self._programs[self._grid.stage(rank)]
        for op in program.ops():
            start_s = float(env.now)
            if isinstance(op, Compute):
                yield from gpu.compute(op.seconds * slowdown)
                times.called_s[place, iteration] += op.called_s
                self._note(rank, op.phase, start_s, f"{op.name}, micro-batch {op.micro_batch}")
                if op.phase == "forward":
                    times.forward_s[place, iteration] = env.now
                elif op.phase == UPDATE and program.staleness is not None:
                    self._updated_s.setdefault(rank, []).append(float(env.now))
            elif isinstance(op, Receive):
                if self._is_there_already(op, iteration):
                    continue
                letter = self._letter(rank, iteration, op.key)
                if not letter.arrived.processed:
                    yield letter.arrived
                del self._letters[self._called(rank, iteration, op.key)]
                self._idle(job, place, iteration, rank, start_s, letter.sent_s, "bubble", op.key)
            elif isinstance(op, Send):
                self._send_for_all(job, place, rank, iteration, op)
            elif isinstance(op, Call):
                waits[op.key] = self._enter(rank, iteration, op)
            elif isinstance(op, Wait):
                meeting, done = waits.pop(op.key)
                if not done.processed:
                    yield done
                self._idle(job, place, iteration, rank, start_s, meeting.last_s, "waiting", op.key)
            elif isinstance(op, Ready):
                self._exchanging.add(self._grid.stage(rank))
                if hand_over is not None:
                    hand_over(op.bucket, buckets[op.bucket])
                progress.ready[op.bucket].succeed()
        times.computed_s[place, iteration] = env.now
        progress.over.succeed()

    def lead(self, rank: int) -> int:
        """Return the rank whose program is played for this one: its own, or that of the first of its stage."""
        if self._fold is None:
            return rank
        each = self._grid.num_ranks // self._grid.pipeline
        return rank // each * each

    def updated_s(self, rank: int) -> list[float]:
        """Return when a rank made each update of its own, where every micro-batch makes one: from the first one on."""
        return self._updated_s.get(self.lead(rank), [])

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        return () if self._fold is None else (self._fold.shortcut,)

    def unplayed_bytes(self) -> np.ndarray:
        """Return the bytes of an iteration that were not sent, because another rank's stood for them [num_links]."""
        topology, each = self._network.topology, self._grid.num_ranks // self._grid.pipeline
        unplayed = np.zeros(len(topology.links))
        if self._fold is None:
            return unplayed
        for (rank, stage), num_bytes in self._unsent.items():
            for other in range(rank + 1, rank + each):
                src, dst = (int(topology.gpus[self._gpus[end]]) for end in (other, self._grid.in_stage(other, stage)))
                unplayed[topology.route(src, dst)] += num_bytes / self._num_begun
        unplayed += self._fold.timed_bytes
        return unplayed

    def _do_alike(
        self, rank: int, job: Job, place: int, iteration: int, hand_over: Callable[[int, Bucket], None] | None
    ) -> Process:
        """Hand over what the lead of the stage hands over, and end when it does."""
        buckets = job.plans(place, iteration).buckets
        progress = self._progress_of(self.lead(rank), iteration, len(buckets))
        for number, bucket in enumerate(buckets):
            if not progress.ready[number].processed:
                yield progress.ready[number]
            if hand_over is not None:
                hand_over(number, bucket)
        if not progress.over.processed:
            yield progress.over
        job.times.computed_s[place, iteration] = self._env.now

    def _progress_of(self, rank: int, iteration: int, num_buckets: int) -> _Progress:
        where = (rank, iteration)
        if where not in self._progress:
            self._progress[where] = _Progress(self._env, num_buckets)
            self._progress.pop((rank, iteration - 2), None)
        return self._progress[where]

    def _idle(
        self, job: Job, place: int, iteration: int, rank: int, start_s: float, set_off_s: float, kind: str, key: Key
    ) -> None:
        """Note that a rank has been idle until now: for somebody else's work, and then for what was on its way."""
        now_s = float(self._env.now)
        if now_s <= start_s:
            return
        turn_s = min(max(set_off_s, start_s), now_s)
        column = job.times.bubble_s if kind == "bubble" else job.times.called_waiting_s
        column[place, iteration] += turn_s - start_s
        job.times.called_s[place, iteration] += now_s - turn_s
        name = f"{key.what}, micro-batch {key.micro_batch}"
        cause = "waited for the rank that sends it" if kind == "bubble" else "waited for others of its group"
        self._note(rank, kind, start_s, name, cause, turn_s)
        self._note(rank, "exposed", turn_s, name)

    def _note(
        self, rank: int, kind: str, start_s: float, name: str, cause: str = "", end_s: float | None = None
    ) -> None:
        end = float(self._env.now) if end_s is None else end_s
        if rank in self._spans and end > start_s:
            self._spans[rank].append((kind, start_s, end, name, cause))

    def _letter(self, rank: int, iteration: int, key: Key) -> _Letter:
        where = self._called(rank, iteration, key)
        if where not in self._letters:
            self._letters[where] = _Letter(self._env)
        return self._letters[where]

    def _called(self, rank: int, iteration: int, key: Key) -> tuple[int, int, Key]:
        """Return what a message to a rank is called by both ends, though it may be of a micro-batch of before."""
        if key.micro_batch >= 0:
            return rank, iteration, key
        before, micro_batch = divmod(key.micro_batch, self._num_micro)
        return rank, iteration + before, key._replace(micro_batch=micro_batch)

    def _is_there_already(self, op: Receive, iteration: int) -> bool:
        """Say whether nobody sends a message: the job begins with micro-batches on their way where iterations flow."""
        if op.key.micro_batch >= 0:
            return False
        first = -(self._programs[op.stage].staleness or 0)
        return iteration * self._num_micro + op.key.micro_batch < first

    def _send_for_all(self, job: Job, place: int, rank: int, iteration: int, op: Send) -> None:
        """Let a message set off, and those of the ranks that do the same where that makes a difference."""
        if self._fold is not None and (self._fold.sends_all or self._may_meet_exchange(rank, op)):
            letter = self._letter(self._grid.in_stage(rank, op.stage), iteration, op.key)
            letter.sent_s = float(self._env.now)
            each = self._grid.num_ranks // self._grid.pipeline
            ranks = np.arange(rank, rank + each)
            src, dst = self._gpus[ranks], self._gpus[self._grid.in_stage(ranks, op.stage)]
            arrived = self._network.transfers(src, dst, op.num_bytes)
            arrived.callbacks.append(partial(self._arrive_for_all, letter))
            return
        self._env.process(self._send(job, place, rank, iteration, op))
        if self._fold is not None:
            self._unsent[rank, op.stage] = self._unsent.get((rank, op.stage), 0.0) + op.num_bytes

    def _arrive_for_all(self, letter: _Letter, arrived: simpy.Event) -> None:
        """Let a message arrive, and note whether those of the ranks that do the same arrived with it."""
        self._compare(_ends_s(arrived))
        letter.arrived.succeed()

    def _may_meet_exchange(self, rank: int, op: Send) -> bool:
        """Say whether a message can be on its way while gradients of its sender's or its receiver's stage are."""
        assert self._fold is not None
        if not self._fold.meets_exchange:
            return False
        is_late = op.key.micro_batch >= self._num_micro - self._fold.num_late
        return is_late or bool(self._exchanging & {self._grid.stage(rank), op.stage})

    def _send(self, job: Job, place: int, rank: int, iteration: int, op: Send) -> Process:
        """Send to the rank in the same place of another stage; a staged message goes through the hosts' memory."""
        peer = self._grid.in_stage(rank, op.stage)
        letter, gpu = self._letter(peer, iteration, op.key), job.devices[place]
        letter.sent_s = float(self._env.now)
        src, dst = int(self._gpus[rank]), int(self._gpus[peer])
        if job.is_staged:
            memory = self._network.topology.memory
            yield from gpu.copy_out(op.num_bytes)
            yield self._network.transfer(Node(memory[src]), Node(memory[dst]), op.num_bytes)
            yield self._network.transfer(Node(memory[dst]), dst, op.num_bytes)
        else:
            yield self._network.transfer(src, dst, op.num_bytes)
        letter.arrived.succeed()

    def _enter(self, rank: int, iteration: int, op: Call) -> tuple[_Meeting, simpy.Event]:
        """Enter a collective after the one before it along the same axis; return it, and when its part is done."""
        if self._fold is not None:
            if op.axis != "tensor":
                self._exchanging.add(self._grid.stage(rank))
            return self._enter_for_all(rank, iteration, op)
        group = self._group(rank, op.axis)
        meeting = self._meeting(group, iteration, op)
        behind = self._behind.get((op.axis, rank))
        if behind is None or behind.processed:
            done = self._come(meeting, group, rank, iteration, op)
        else:
            done = self._env.process(self._follow(behind, meeting, group, rank, iteration, op))
        self._behind[op.axis, rank] = done
        return meeting, done

    def _enter_for_all(self, rank: int, iteration: int, op: Call) -> tuple[_Meeting, simpy.Event]:
        """Enter a collective with all of the group, and those of the other groups of the stage beside it."""
        each = self._grid.num_ranks // self._grid.pipeline
        groups = list(dict.fromkeys(self._group(other, op.axis) for other in range(rank, rank + each)))
        meeting = _Meeting(self._begin(groups[0], op), 0)
        behind = self._behind.get((op.axis, rank))
        if behind is None or behind.processed:
            done = self._come_for_all(meeting, groups, op)
        else:
            done = self._env.process(self._follow_for_all(behind, meeting, groups, op))
        self._behind[op.axis, rank] = done
        return meeting, done

    def _follow_for_all(
        self, behind: simpy.Event, meeting: _Meeting, groups: Sequence[tuple[int, ...]], op: Call
    ) -> Process:
        yield behind
        yield self._come_for_all(meeting, groups, op)

    def _come_for_all(self, meeting: _Meeting, groups: Sequence[tuple[int, ...]], op: Call) -> simpy.Event:
        meeting.last_s = float(self._env.now)
        for number, group in enumerate(groups):
            collective = self._begin(group, op) if number else meeting.collective
            collective.finished.callbacks.append(partial(self._leave_for_all, meeting, len(group)))
            collective.enter(*range(len(group)))
        return meeting.collective.done(0)

    def _leave_for_all(self, meeting: _Meeting, num_ranks: int, finished: simpy.Event) -> None:
        """Note whether all ranks of a collective were done at the same time, and with those of groups beside it."""
        ends_s = _ends_s(finished)[:num_ranks]
        meeting.end_s = min(meeting.end_s, float(ends_s[0]))
        self._compare(np.append(ends_s, meeting.end_s))

    def _compare(self, instants_s: np.ndarray) -> None:
        self.has_kept_together &= bool(np.allclose(instants_s, instants_s[0], rtol=1e-11, atol=0.0))

    def _follow(
        self, behind: simpy.Event, meeting: _Meeting, group: tuple[int, ...], rank: int, iteration: int, op: Call
    ) -> Process:
        yield behind
        yield self._come(meeting, group, rank, iteration, op)

    def _come(self, meeting: _Meeting, group: tuple[int, ...], rank: int, iteration: int, op: Call) -> simpy.Event:
        place = (group.index(rank) - op.root) % len(group)
        meeting.collective.enter(place)
        meeting.num_to_come -= 1
        if not meeting.num_to_come:
            meeting.last_s = float(self._env.now)
            del self._meetings[op.axis, group[0], iteration, op.key]
        return meeting.collective.done(place)

    def _group(self, rank: int, axis: str) -> tuple[int, ...]:
        if (axis, rank) not in self._groups:
            group = self._grid.group(rank, _AXES.get(axis, (axis,)))
            self._groups.update({(axis, each): group for each in group})
        return self._groups[axis, rank]

    def _meeting(self, group: tuple[int, ...], iteration: int, op: Call) -> _Meeting:
        key = (op.axis, group[0], iteration, op.key)
        if key not in self._meetings:
            self._meetings[key] = _Meeting(self._begin(group, op), len(group))
        return self._meetings[key]

    def _begin(self, group: tuple[int, ...], op: Call) -> Collective:
        """Begin a collective of a group, in which nobody of it is yet; switches that add in it are."""
        known = (op.axis, group[0], op.op, op.num_bytes, op.root)
        if known not in self._schedules:
            topology, gpus = self._network.topology, np.roll(self._gpus[list(group)], -op.root)
            algorithm = self._algorithm_of(op)
            _, schedule = schedule_collective(op.op, algorithm, topology, gpus, op.num_bytes, self._transport)
            nodes: list[Hashable] = [*gpus.tolist(), *switches(schedule, topology, gpus)]
            self._schedules[known] = (schedule, nodes)
        schedule, nodes = self._schedules[known]
        collective = self._network.begin(schedule, nodes)
        others = range(len(group), schedule.num_ranks)
        if others:
            collective.enter_each(others, np.full(len(others), float(self._env.now)))
        return collective

    def _algorithm_of(self, op: Call) -> str:
        """Return what the strategy names for an all-reduce of replicas; the library chooses for everything else."""
        return self._algorithm if op.op == "all-reduce" and op.axis == "replicas" else "auto"


def _ends_s(event: simpy.Event) -> np.ndarray:
    """Return when each of what an event stands for had ended: the messages of some, or the parts of a collective."""
    times = event.value
    assert isinstance(times, TransferTimes | PlayTimes)
    return times.end_s
