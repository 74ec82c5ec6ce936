"""Collectives of the ranks of a layout: their groups, their order, and the share of a GPU that each holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.communicator.algorithm import algorithm_name, schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.communicator.sm_share import HOLDING, sm_share
from clustersim.devices import GpuDevice
from clustersim.hardware.sheet import Transport
from clustersim.network import Collective, Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.program.ops import Call, Key
from clustersim.shortcuts.timed_collectives import are_one

_OF_COPIES = ("replicas", "data", SHARD_GROUP, REPLICATE_GROUP)
"""Axes along which copies exchange what they have, of experts too."""


class PendingCollective:
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


class CollectiveMembers(NamedTuple):
    """Who goes through a schedule together: the node of each rank, the ranks that are GPUs, and what ranks pause.

    Others are switches, or memories of hosts.
    """

    schedule: Schedule
    nodes: np.ndarray
    gpus: Sequence[int]
    delay_s: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A collective of known time, which nobody waits to begin: when all had asked for it."""

    last_s: float


class LayoutCollectives:
    """The collectives of the ranks on `gpus` [num_ranks], who stand on a grid, and whose `devices` they run on.

    `looks_together`: whether it is noted when GPUs that split layers are not done at the same time.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        devices: Mapping[int, GpuDevice],
        looks_together: bool,
    ):
        self._network, self._env = network, network.env
        self._gpus, self._grid, self._devices = gpus, grid, devices
        self._algorithm, self._transport = algorithm, transport
        self._looks_together = looks_together
        self.has_kept_together = True
        self._parties: dict[tuple[str, int, str, float, int], CollectiveMembers] = {}
        self._shares: dict[tuple[str, int, str, float], dict[int, float]] = {}
        self._meetings: dict[tuple[str, int, int, Key], PendingCollective] = {}
        self._groups: dict[tuple[str, int], tuple[int, ...]] = {}
        self._places: dict[tuple[str, int], int] = {}  # of ranks in their groups
        self._behind: dict[tuple[str, int], simpy.Event] = {}  # the last collective of a rank along an axis

    def call(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective | TimedCollective, simpy.Event]:
        """Begin a collective; return when the last one asked for it, and its end. One of known time sends nothing."""
        if op.known_s is None:
            return self.enter(rank, iteration, op, after)
        return TimedCollective(float(self._env.now)), self._env.timeout(op.known_s)

    def enter(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective, simpy.Event]:
        """Enter a collective after the one before it along the same axis, and `after` another one if it is to be so.

        Return it, and when the rank's part of it is done.
        """
        group = self._group(rank, op.axis)
        meeting = self._meeting(group, iteration, op)
        meeting.ask(float(self._env.now))
        return meeting, self._in_turn(rank, op, after, partial(self._come, meeting, group, rank, iteration, op))

    def compare(self, instants_s: np.ndarray) -> None:
        """Note whether what is taken to happen at the same time did so."""
        self.has_kept_together &= are_one(instants_s)

    def _in_turn(
        self, rank: int, op: Call, after: simpy.Event | None, come: Callable[[simpy.Event], None]
    ) -> simpy.Event:
        """Let `come` begin a rank's part of a collective behind what is before it; return its end."""
        turn = op.axis, rank
        behind = [each for each in (self._behind.get(turn), after) if each is not None and each.callbacks is not None]
        done = self._behind[turn] = simpy.Event(self._env)
        if behind:
            _after(behind, come, done)
        else:
            come(done)
        return done

    def _come(
        self, meeting: PendingCollective, group: tuple[int, ...], rank: int, iteration: int, op: Call, done: simpy.Event
    ) -> None:
        place = (self._places[op.axis, rank] - op.root) % len(group)
        meeting.collective.take_part(place, done)
        meeting.num_to_come -= 1
        if not meeting.num_to_come:
            del self._meetings[op.axis, group[0], iteration, op.key], meeting.collective
        if op.axis != "tensor":
            self._hold(rank, group, op, done)

    def _hold(self, rank: int, group: tuple[int, ...], op: Call, done: simpy.Event) -> None:
        """Let a collective hold multiprocessors of a rank's GPU until its part is done, beside what that computes."""
        own = self._devices[rank].multiprocessors
        if own is None or op.op not in HOLDING:
            return
        key = op.axis, group[0], op.op, op.num_bytes
        if key not in self._shares:
            topology, gpus = self._network.topology, self._gpus[list(group)]
            name, library = op.op, self._transport.library
            if op.op == "all-reduce":
                name = algorithm_name(op.op, self._algorithm_of(op), topology, gpus, op.num_bytes, library)
            shares = sm_share(topology, gpus, self._transport, name, self._algorithm_of(op)).tolist()
            self._shares[key] = dict(zip(group, shares, strict=True))
        share = self._shares[key][rank]
        if share:
            own.hold(share)
            done.callbacks.insert(0, lambda _: own.let_go(share))  # before anybody goes on who waits for it

    def _group(self, rank: int, axis: str) -> tuple[int, ...]:
        group = self._groups.get((axis, rank))
        if group is None:
            group = self._grid.collective_group(rank, axis)
            self._groups.update({(axis, each): group for each in group})
            self._places.update({(axis, each): place for place, each in enumerate(group)})
        return group

    def _meeting(self, group: tuple[int, ...], iteration: int, op: Call) -> PendingCollective:
        key = (op.axis, group[0], iteration, op.key)
        meeting = self._meetings.get(key)
        if meeting is None:
            meeting = self._meetings[key] = PendingCollective(self._begin(self._party(group, op)), len(group))
            if op.axis == "tensor" and self._looks_together:
                meeting.collective.finished.callbacks.append(partial(self._look_together, len(group)))
        return meeting

    def _look_together(self, num_gpus: int, finished: simpy.Event) -> None:
        """Note whether GPUs that split layers were done with a collective at the same time."""
        assert isinstance(finished.value, PlayTimes)
        self.compare(finished.value.end_s[:num_gpus])

    def _party(self, group: tuple[int, ...], op: Call) -> CollectiveMembers:
        """Return how a group goes through a collective."""
        known = (op.axis, group[0], op.op, op.num_bytes, op.root)
        if known not in self._parties:
            topology, gpus = self._network.topology, np.roll(self._gpus[list(group)], -op.root)
            algorithm = self._algorithm_of(op)
            _, schedule = schedule_collective(op.op, algorithm, topology, gpus, op.num_bytes, self._transport.library)
            nodes = np.append(topology.gpus[gpus], np.array(extra_ranks(schedule, topology, gpus), dtype=np.int64))
            delay_s = pauses_s(schedule, topology, gpus, self._transport.library, op.op, algorithm)
            self._parties[known] = CollectiveMembers(schedule, nodes.astype(np.int64), range(len(group)), delay_s)
        return self._parties[known]

    def _begin(self, party: CollectiveMembers) -> Collective:
        """Begin a collective, in which no GPU is yet; switches and memories are."""
        collective = self._network.begin_at(party.schedule, party.nodes, party.delay_s)
        if len(party.gpus) < party.schedule.num_ranks:
            others = np.setdiff1d(np.arange(party.schedule.num_ranks), party.gpus).tolist()
            collective.enter_each(others, [float(self._env.now)] * len(others))
        return collective

    def _algorithm_of(self, op: Call) -> str:
        """Return what is named for what copies add up and gather; the library chooses for everything else."""
        return self._algorithm if op.axis in _OF_COPIES and not op.has_root else "auto"


def _after(behind: Sequence[simpy.Event], come: Callable[[simpy.Event], None], done: simpy.Event) -> None:
    """Let what `come` begins, and `done` ends, begin when all behind are done."""
    num_left = len(behind)

    def look(_: simpy.Event) -> None:
        nonlocal num_left
        num_left -= 1
        if not num_left:
            come(done)

    for each in behind:
        each.callbacks.append(look)
