"""Ranks over which copies of a model are laid, each playing the program of its stage on the clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.devices import GpuDevice, Pieces
from clustersim.hardware.sheet import Transport
from clustersim.network import Collective, Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import PEERS, SHARERS, Grid
from clustersim.parallelism.plan import ACTIVATIONS, GRADIENTS, SAMPLES
from clustersim.program import Bucket
from clustersim.program.ops import (
    FORWARD,
    UPDATE,
    Call,
    Compute,
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
from clustersim.results import Spans
from clustersim.strategies.algorithm import algorithm_name, schedule_collective, switches
from clustersim.strategies.day import Process, send_for_samples, take_samples
from clustersim.strategies.held import HOLDING, held_share
from clustersim.strategies.host_side import HostSide
from clustersim.strategies.job import ENDLESS, Job
from clustersim.strategies.timed import are_one
from clustersim.topology import Node

_ON_HOST = (Copy, HostUpdate)
"""What a rank's host does, or copies to it and back."""

_OF_COPIES = ("replicas", "data", SHARERS, PEERS)
"""Axes along which copies exchange what they have, of experts too."""

_CAUSES = {
    "bubble": "waited for the rank that sends it",
    "handing over": "waited for the rank that gets it",
    "waiting": "waited for others of its group",
    "input": "its samples were not read and decoded yet",
}
"""Why a rank has been idle, by what the time counts as."""

_TIMED = "collectives of GPUs that split layers as the time that one takes alone, where they meet nobody else"


class Letter:
    """A message on its way: when it set off, and the events of its arrival and that the other rank waits for it."""

    __slots__ = ("arrived", "awaited", "sent_s")

    def __init__(self, env: simpy.Environment):
        self.arrived: simpy.Event = env.event()
        self.awaited: simpy.Event = env.event()
        self.sent_s = float("inf")


class Meeting:
    """A collective of a group: how many have still to ask for it, and to enter it, and when the last of them asked.

    Who has asked enters behind the collective before it, which is on its way and waits for nobody. When all have come,
    the collective is let go of: ranks look back at when it was asked for, after its end.
    """

    __slots__ = ("collective", "last_s", "num_to_ask", "num_to_come")

    def __init__(self, collective: Collective, num_ranks: int):
        self.collective = collective
        self.num_to_ask = self.num_to_come = num_ranks
        self.last_s = float("inf")

    def ask(self, now_s: float) -> None:
        self.num_to_ask -= 1
        if not self.num_to_ask:
            self.last_s = now_s


class Party(NamedTuple):
    """Who goes through a schedule together: the node of each rank, and the ranks that are GPUs. Others are switches."""

    schedule: Schedule
    nodes: Sequence[Hashable]
    gpus: Sequence[int]


@dataclass(frozen=True, slots=True)
class Known:
    """A collective of known time, which nobody waits to begin: when all had asked for it."""

    last_s: float


class Crew:
    """All ranks of a job on `gpus` [num_ranks], who stand on a grid; `programs` are those of its stages.

    What is sent is taken to have a buffer that waits for it, so that it sets off at once, and what has to be computed
    goes on beside it. `watched` ranks note down what they do in their latest iteration, up to the `last_noted` one.
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
    ):
        """`timed_bytes` [num_links] are those that an iteration sends in collectives that are time in programs."""
        self._network, self._env = network, network.env
        self._timed_bytes = timed_bytes
        self._has_kept_together = True
        self._gpus, self._grid, self._programs = gpus, grid, programs
        self._ops: dict[int, tuple[Op, ...]] = {}
        self._num_micro = max(program.num_micro_batches for program in programs)
        self._parties: dict[tuple[str, int, str, float, int], Party] = {}
        self._algorithm, self._transport = algorithm, transport
        self._shares: dict[tuple[str, int, str, float], dict[int, float]] = {}
        self._devices: dict[int, GpuDevice] = {}  # of the ranks that have begun
        self._letters: dict[tuple[int, int, Key], Letter] = {}
        self._host = HostSide()
        self._updated_s: dict[int, list[float]] = {}
        self._meetings: dict[tuple[str, int, int, Key], Meeting] = {}
        self._groups: dict[tuple[str, int], tuple[int, ...]] = {}
        self._places: dict[tuple[str, int], int] = {}  # of ranks in their groups
        self._behind: dict[tuple[str, int], simpy.Event] = {}  # the last collective of a rank along an axis
        self._spans: dict[int, list[tuple[str, float, float, str, str]]] = {rank: [] for rank in watched}
        self._day: dict[int, list[tuple[str, float, float, str, str]]] = {}  # of an iteration that has not ended
        self.last_noted = ENDLESS  # the latest iteration that is noted down
        self.noted: dict[int, int] = {}  # the iteration of each rank that is

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
        rank, env, times = int(ranks[place]), self._env, job.times
        buckets = job.plans(place, iteration).buckets
        times.make_room(iteration)
        times.begin_s[place, iteration] = times.forward_s[place, iteration] = env.now
        self._devices[rank] = job.devices[place]
        if job.input_stage is not None:
            times.fetched_s[place, iteration] = env.now
        self._day[rank] = []
        waits: dict[Key, tuple[Meeting | Known, simpy.Event]] = {}
        aside: dict[Key, simpy.Event] = {}  # copies and updates on the host
        ahead: list[Compute] = []  # one after the other, with nothing in between
        unsent: Send | None = None  # what the other rank is to be there for
        for op in self._ops_of(self._grid.stage(rank)):
            if unsent is not None and isinstance(op, Receive) and unsent.paired and op.stage == unsent.stage:
                self._letter(rank, iteration, op.key).awaited.succeed()
            if unsent is not None and not _comes_before(op, unsent):
                yield from self._hand_over(job, place, rank, iteration, unsent)
                unsent = None
            if isinstance(op, Compute):
                ahead.append(op)
                continue
            if ahead:
                yield from self._compute(job, place, rank, iteration, ahead)
                ahead = []
            start_s = float(env.now)
            if isinstance(op, Receive):
                if not self._is_there_already(op, iteration):
                    yield from self._receive(job, place, rank, iteration, op)
            elif isinstance(op, Send) and op.awaited:
                unsent = op
            elif isinstance(op, Send):
                self._send(job, place, rank, iteration, op)
            elif isinstance(op, Call):
                waits[op.key] = self._call(rank, iteration, op, waits[op.after][1] if op.after else None)
            elif isinstance(op, _ON_HOST):
                after = op.after and (waits[op.after][1] if op.after in waits else aside[op.after])
                aside[op.key] = self._host.begin(job, place, op, after, partial(self._note, rank))
            elif aside and isinstance(op, Wait) and op.key in aside:
                if not aside[op.key].processed:
                    yield aside[op.key]
                self._await_host(job, place, iteration, rank, start_s, op.key)
            elif isinstance(op, Wait):
                meeting, done = waits[op.key]
                if not done.processed:
                    yield done
                kind = "input" if op.key.what == SAMPLES else "waiting"
                self._idle(job, place, iteration, rank, start_s, meeting.last_s, kind, op.key)
            elif isinstance(op, Read) and job.input_stage is not None:
                yield from take_samples(job, place)
                self._idle(job, place, iteration, rank, start_s, float(env.now), "input", op.key)
            elif isinstance(op, Ready) and hand_over is not None:
                hand_over(op.bucket, buckets[op.bucket])
        if ahead:
            yield from self._compute(job, place, rank, iteration, ahead)
        if unsent is not None:
            yield from self._hand_over(job, place, rank, iteration, unsent)
        times.computed_s[place, iteration] = env.now
        times.slowed_s[place, iteration] += job.devices[place].take_lost_s()
        send_for_samples(job, place)
        if rank in self._spans and iteration <= self.last_noted:
            self._spans[rank], self.noted[rank] = self._day[rank], iteration

    def _receive(self, job: Job, place: int, rank: int, iteration: int, op: Receive) -> Process:
        """Wait for what another stage hands over."""
        start_s, letter = float(self._env.now), self._letter(rank, iteration, op.key)
        if op.awaited and not letter.awaited.triggered:
            letter.awaited.succeed()
        if not letter.arrived.processed:
            yield letter.arrived
        del self._letters[self._called(rank, iteration, op.key)]
        self._idle(job, place, iteration, rank, start_s, letter.sent_s, "bubble", op.key)

    def _ops_of(self, stage: int) -> Iterable[Op]:
        """Return what a rank of a stage does in an iteration, the same for all of them."""
        if stage not in self._ops:
            self._ops[stage] = tuple(self._programs[stage].ops())
        return self._ops[stage]

    def _compute(self, job: Job, place: int, rank: int, iteration: int, ops: Sequence[Compute]) -> Process:
        """Compute one thing after the other, at once where the GPU's pace is always the same."""
        times, slowdown = job.times, job.slowdown(place, iteration)
        is_watched = rank in self._spans
        for now in [ops] if job.paces is None else [[op] for op in ops]:
            start_s = float(self._env.now)
            seconds = [op.seconds for op in now]
            pieces = yield from job.devices[place].compute(sum(seconds) * slowdown)
            ends_s = _ends_s(start_s, [each * slowdown for each in seconds], pieces, float(self._env.now))
            for op, end_s in zip(now, ends_s, strict=True):
                if op.called_s:
                    times.called_s[place, iteration] += op.called_s
                if is_watched:
                    self._note(rank, op.phase, start_s, f"{op.name}, micro-batch {op.micro_batch}", end_s=end_s)
                if op.phase == FORWARD:
                    times.forward_s[place, iteration] = end_s
                elif op.phase == UPDATE and self._programs[self._grid.stage(rank)].staleness is not None:
                    self._updated_s.setdefault(rank, []).append(end_s)
                start_s = end_s

    def lead(self, rank: int) -> int:
        """Return the rank whose program is played for this one: its own."""
        return rank

    @property
    def has_kept_together(self) -> bool:
        """Whether ranks that are taken to do the same at the same time did so, as far as is known."""
        return self._has_kept_together

    def stands_in(self, rank: int) -> int:
        """Return the rank that exchanges gradients for this one: itself."""
        return rank

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        return () if self._timed_bytes is None else (_TIMED,)

    def whole_bytes(self, played: np.ndarray) -> np.ndarray:
        """Return the bytes of an iteration [num_links], of which these were played."""
        return played if self._timed_bytes is None else played + self._timed_bytes

    def under_way(self) -> list[simpy.Event]:
        """Return the arrivals of messages that nobody waits for: those of micro-batches that the job ended before."""
        return [letter.arrived for letter in self._letters.values() if not letter.arrived.processed]

    def updated_s(self, rank: int) -> list[float]:
        """Return when a rank made each update of its own, where every micro-batch makes one: from the first one on."""
        return self._updated_s.get(self.lead(rank), [])

    def _idle(
        self, job: Job, place: int, iteration: int, rank: int, start_s: float, set_off_s: float, kind: str, key: Key
    ) -> None:
        """Note that a rank has been idle until now: for somebody else's work, and then for what was on its way."""
        now_s = float(self._env.now)
        if now_s <= start_s:
            return
        turn_s, cause = min(max(set_off_s, start_s), now_s), _CAUSES[kind]
        kind = "bubble" if kind == "handing over" else kind
        kind = "waiting" if kind == "bubble" and self._grid.tiled else kind  # tiles and paths are no pipeline
        if kind == "input":
            so_far_s = np.fmax(job.times.fetched_s[place, iteration], job.times.begin_s[place, iteration])
            job.times.fetched_s[place, iteration] = so_far_s + turn_s - start_s
        else:
            column = job.times.bubble_s if kind == "bubble" else job.times.called_waiting_s
            column[place, iteration] += turn_s - start_s
        job.times.called_s[place, iteration] += now_s - turn_s
        if rank not in self._spans:
            return
        name = f"{key.what}, micro-batch {key.micro_batch}"
        self._note(rank, kind, start_s, name, cause, turn_s)
        self._note(rank, "exposed", turn_s, name)

    def _await_host(self, job: Job, place: int, iteration: int, rank: int, start_s: float, key: Key) -> None:
        """Note that a rank has been idle until now for its host, or for what is copied there or back."""
        job.times.offload_s[place, iteration] += float(self._env.now) - start_s
        self._note(rank, "offload", start_s, f"{key.what}, micro-batch {key.micro_batch}", "waited for its host")

    def _note(
        self, rank: int, kind: str, start_s: float, name: str, cause: str = "", end_s: float | None = None
    ) -> None:
        end = float(self._env.now) if end_s is None else end_s
        if rank in self._spans and end > start_s:
            self._day[rank].append((kind, start_s, end, name, cause))

    def _letter(self, rank: int, iteration: int, key: Key) -> Letter:
        where = self._called(rank, iteration, key)
        if where not in self._letters:
            self._letters[where] = Letter(self._env)
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

    def _send(self, job: Job, place: int, rank: int, iteration: int, op: Send) -> None:
        """Let a message set off."""
        self._env.process(self._carry(job, place, rank, iteration, op))

    def _hand_over(self, job: Job, place: int, rank: int, iteration: int, op: Send) -> Process:
        """Wait until the other rank is there, let a message set off, and wait until it has arrived."""
        start_s = float(self._env.now)
        letter = self._letter(self._grid.in_stage(rank, op.stage), iteration, op.key)
        if not letter.awaited.processed:
            yield letter.awaited
        self._send(job, place, rank, iteration, op)
        set_off_s = float(self._env.now)
        yield letter.arrived
        self._idle(job, place, iteration, rank, start_s, set_off_s, "handing over", op.key)

    def _carry(self, job: Job, place: int, rank: int, iteration: int, op: Send) -> Process:
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

    def _call(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[Meeting | Known, simpy.Event]:
        """Begin a collective; return when the last one asked for it, and its end. One of known time sends nothing."""
        if op.known_s is None:
            return self._enter(rank, iteration, op, after)
        return Known(float(self._env.now)), self._env.timeout(op.known_s)

    def _enter(self, rank: int, iteration: int, op: Call, after: simpy.Event | None) -> tuple[Meeting, simpy.Event]:
        """Enter a collective after the one before it along the same axis, and `after` another one if it is to be so.

        Return it, and when the rank's part of it is done.
        """
        group = self._group(rank, op.axis)
        meeting = self._meeting(group, iteration, op)
        meeting.ask(float(self._env.now))
        behind = self._yet_to_be_done(rank, op.axis, after)
        if not behind:
            done = self._come(meeting, group, rank, iteration, op)
        else:
            done = self._env.event()
            self._after(behind, lambda: self._come(meeting, group, rank, iteration, op), done)
        self._behind[op.axis, rank] = done
        return meeting, done

    def _yet_to_be_done(self, rank: int, axis: str, after: simpy.Event | None) -> list[simpy.Event]:
        """Return what has to be done before a rank enters a collective along an axis: the one before, and `after`."""
        return [each for each in (self._behind.get((axis, rank)), after) if each is not None and not each.processed]

    @staticmethod
    def _after(behind: Sequence[simpy.Event], come: Callable[[], simpy.Event], done: simpy.Event) -> None:
        """Let what `come` begins, whose end it returns, begin when all behind are done; `done` happens at its end."""
        num_left = len(behind)

        def end(_: simpy.Event) -> None:
            done.succeed()

        def look(_: simpy.Event) -> None:
            nonlocal num_left
            num_left -= 1
            if not num_left:
                come().callbacks.append(end)

        for each in behind:
            each.callbacks.append(look)

    def _come(self, meeting: Meeting, group: tuple[int, ...], rank: int, iteration: int, op: Call) -> simpy.Event:
        place = (self._places[op.axis, rank] - op.root) % len(group)
        collective = meeting.collective
        collective.enter(place)
        meeting.num_to_come -= 1
        if not meeting.num_to_come:
            del self._meetings[op.axis, group[0], iteration, op.key], meeting.collective
        done = collective.done(place)
        self._hold(rank, group, op, done)
        return done

    def _hold(self, rank: int, group: tuple[int, ...], op: Call, done: simpy.Event) -> None:
        """Let a collective hold multiprocessors of a rank's GPU until its part is done, beside what that computes."""
        own = self._devices[rank].multiprocessors
        if own is None or op.axis == "tensor" or op.op not in HOLDING:
            return
        key = op.axis, group[0], op.op, op.num_bytes
        if key not in self._shares:
            topology, gpus = self._network.topology, self._gpus[list(group)]
            name, library = op.op, self._transport.library
            if op.op == "all-reduce":
                name = algorithm_name(op.op, self._algorithm_of(op), topology, gpus, op.num_bytes, library)
            shares = held_share(topology, gpus, self._transport, name, self._algorithm_of(op)).tolist()
            self._shares[key] = dict(zip(group, shares, strict=True))
        share = self._shares[key][rank]
        if share:
            own.hold(share)
            done.callbacks.append(lambda _: own.let_go(share))

    def _group(self, rank: int, axis: str) -> tuple[int, ...]:
        if (axis, rank) not in self._groups:
            group = self._grid.met(rank, axis)
            self._groups.update({(axis, each): group for each in group})
            self._places.update({(axis, each): place for place, each in enumerate(group)})
        return self._groups[axis, rank]

    def _meeting(self, group: tuple[int, ...], iteration: int, op: Call) -> Meeting:
        key = (op.axis, group[0], iteration, op.key)
        if key not in self._meetings:
            meeting = self._meetings[key] = Meeting(self._begin(self._party(group, op)), len(group))
            if op.axis == "tensor" and self._timed_bytes is not None:
                meeting.collective.finished.callbacks.append(partial(self._look_together, len(group)))
        return self._meetings[key]

    def _look_together(self, num_gpus: int, finished: simpy.Event) -> None:
        """Note whether GPUs that split layers were done with a collective at the same time."""
        assert isinstance(finished.value, PlayTimes)
        self._compare(finished.value.end_s[:num_gpus])

    def _compare(self, instants_s: np.ndarray) -> None:
        self._has_kept_together &= are_one(instants_s)

    def _party(self, group: tuple[int, ...], op: Call) -> Party:
        """Return how a group goes through a collective."""
        known = (op.axis, group[0], op.op, op.num_bytes, op.root)
        if known not in self._parties:
            topology, gpus = self._network.topology, np.roll(self._gpus[list(group)], -op.root)
            algorithm = self._algorithm_of(op)
            _, schedule = schedule_collective(op.op, algorithm, topology, gpus, op.num_bytes, self._transport.library)
            nodes = [*map(Node, topology.gpus[gpus].tolist()), *switches(schedule, topology, gpus)]
            self._parties[known] = Party(schedule, nodes, range(len(group)))
        return self._parties[known]

    def _begin(self, party: Party) -> Collective:
        """Begin a collective, in which no GPU is yet; switches that add in it are."""
        collective = self._network.begin(party.schedule, party.nodes)
        if len(party.gpus) < party.schedule.num_ranks:
            others = np.setdiff1d(np.arange(party.schedule.num_ranks), party.gpus)
            collective.enter_each(others, np.full(len(others), float(self._env.now)))
        return collective

    def _algorithm_of(self, op: Call) -> str:
        """Return what is named for what copies add up and gather; the library chooses for everything else."""
        return self._algorithm if op.axis in _OF_COPIES and op.op != "broadcast" else "auto"


def _comes_before(op: Op, unsent: Send) -> bool:
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
        return [*(start_s + np.cumsum(seconds[:-1])).tolist(), end_s]
    times_s, done_s = zip(*pieces, strict=True)
    done = np.cumsum(seconds)
    ends_s: list[float] = np.interp(done, [0.0, *done_s, done[-1]], [start_s, *times_s, end_s]).tolist()
    return ends_s
