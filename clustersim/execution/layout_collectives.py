"""Collectives among the ranks of a layout: their groups, their order, and the multiprocessors that they occupy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.collectives.expert_tokens import expert_schedule
from clustersim.communicator.algorithm import algorithm_name, by_host, schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.communicator.sm_share import SM_COLLECTIVES, sm_share, token_route_sm_share
from clustersim.devices import GpuDevice
from clustersim.hardware.sheet import Transport
from clustersim.network import Collective, Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.program.ops import Call, CollectiveOp, Key
from clustersim.shortcuts.timed_collectives import is_same_time

_REPLICA_AXES = ("replicas", "data", SHARD_GROUP, REPLICATE_GROUP)
"""Axes along which copies of the model, or of its experts, exchange gradients and weights."""


class PendingCollective:
    """A collective of a group that not all ranks have entered yet.

    A rank first calls the collective, and enters it when its previous collective is done. `last_call_s` is the time of
    the last call in seconds, infinity before it: from then on, only messages are waited for. Ranks read it after the
    end. The attribute `collective` is deleted when all ranks have entered.
    """

    __slots__ = ("collective", "last_call_s", "num_to_call", "num_to_enter")

    def __init__(self, collective: Collective, num_ranks: int):
        self.collective = collective
        self.num_to_call = self.num_to_enter = num_ranks
        self.last_call_s = float("inf")

    def note_call(self, now_s: float) -> None:
        """Note the call of one rank, at `now_s` seconds."""
        self.num_to_call -= 1
        if not self.num_to_call:
            self.last_call_s = now_s


class CollectiveMembers(NamedTuple):
    """The members of a collective: the schedule, the node of each rank [num_ranks], and the ranks that are GPUs.

    The other ranks are switches, or memories of hosts. `delay_s` [num_ranks, num_steps] are pauses before each step, in
    seconds.
    """

    schedule: Schedule
    nodes: np.ndarray
    gpus: Sequence[int]
    delay_s: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """A collective that takes a known time and sends nothing; `last_call_s` is when it was called, in seconds."""

    last_call_s: float


class LayoutCollectives:
    """The collectives of the ranks of `grid`, on `gpus` [num_ranks] and their `devices`.

    With `checks_sync`, `stayed_in_sync` becomes False when GPUs that split layers end a collective at different times.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        devices: Mapping[int, GpuDevice],
        checks_sync: bool,
    ):
        self._network, self._env = network, network.env
        self._gpus, self._grid, self._devices = gpus, grid, devices
        self._algorithm, self._transport = algorithm, transport
        self._checks_sync = checks_sync
        self.stayed_in_sync = True
        self._known_members: dict[tuple[str, int, CollectiveOp], CollectiveMembers] = {}
        self._sm_shares: dict[tuple[str, int, CollectiveOp], dict[int, float]] = {}
        self._pending: dict[tuple[str, int, int, Key], PendingCollective] = {}
        self._groups: dict[tuple[str, int], tuple[int, ...]] = {}
        self._places: dict[tuple[str, int], int] = {}  # of ranks in their groups
        self._previous: dict[tuple[str, int], simpy.Event] = {}  # the last collective of a rank along an axis

    def call(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective | TimedCollective, simpy.Event]:
        """Call a collective for a rank; return it, and the event of the end of the rank's part."""
        if op.known_s is None:
            return self.enter(rank, iteration, op, after)
        done = self._begin_in_order(rank, op, after, partial(self._end_after, op.known_s))
        return TimedCollective(float(self._env.now)), done

    def enter(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective, simpy.Event]:
        """Enter a collective after the rank's previous one along the same axis, and after the event `after`.

        Return it, and the event of the end of the rank's part.
        """
        group = self._group(rank, op.axis)
        pending = self._pending_collective(group, iteration, op)
        pending.note_call(float(self._env.now))
        take_part = partial(self._take_part, pending, group, rank, iteration, op)
        return pending, self._begin_in_order(rank, op, after, take_part)

    def check_sync(self, times_s: np.ndarray) -> None:
        """Note whether times [n] in seconds, which are assumed to be the same, are so."""
        self.stayed_in_sync &= is_same_time(times_s)

    def _begin_in_order(
        self, rank: int, op: Call, after: simpy.Event | None, begin: Callable[[simpy.Event], None]
    ) -> simpy.Event:
        """Begin a rank's part of a collective when the events before it are done; return the event of its end.

        `begin` is called with that event.
        """
        key = op.axis, rank
        waits_for = [
            each for each in (self._previous.get(key), after) if each is not None and each.callbacks is not None
        ]
        done = self._previous[key] = simpy.Event(self._env)
        if waits_for:
            _when_all_done(waits_for, begin, done)
        else:
            begin(done)
        return done

    def _end_after(self, seconds: float, done: simpy.Event) -> None:
        self._env.timeout(seconds).callbacks.append(done.trigger)

    def _take_part(
        self,
        pending: PendingCollective,
        group: tuple[int, ...],
        rank: int,
        iteration: int,
        op: Call,
        done: simpy.Event,
    ) -> None:
        place = (self._places[op.axis, rank] - op.root) % len(group)
        pending.collective.take_part(place, done)
        pending.num_to_enter -= 1
        if not pending.num_to_enter:
            del self._pending[op.axis, group[0], iteration, op.key], pending.collective
        if op.axis != "tensor":
            self._occupy_sms(rank, group, op, done)

    def _occupy_sms(self, rank: int, group: tuple[int, ...], op: Call, done: simpy.Event) -> None:
        """Occupy multiprocessors of a rank's GPU until its part of a collective is done; compute slows down."""
        multiprocessors = self._devices[rank].multiprocessors
        if multiprocessors is None or (op.op not in SM_COLLECTIVES and op.token_route is None):
            return
        key = op.axis, group[0], op.operation
        if key not in self._sm_shares:
            self._sm_shares[key] = dict(zip(group, self._sm_shares_of(group, op).tolist(), strict=True))
        share = self._sm_shares[key][rank]
        if share:
            multiprocessors.occupy(share)
            done.callbacks.insert(0, lambda _: multiprocessors.release(share))  # before any process that waits goes on

    def _sm_shares_of(self, group: tuple[int, ...], op: Call) -> np.ndarray:
        """Return the share of each GPU's multiprocessors that a collective occupies [num_ranks]."""
        topology, gpus, name = self._network.topology, self._gpus[list(group)], op.op
        if op.token_route is not None:
            return token_route_sm_share(topology, gpus, op.token_route)
        if op.op == "all-reduce":
            library = self._transport.library
            name = algorithm_name(op.op, self._algorithm_of(op), topology, gpus, op.num_bytes, library)
        return sm_share(topology, gpus, self._transport, name, self._algorithm_of(op))

    def _group(self, rank: int, axis: str) -> tuple[int, ...]:
        group = self._groups.get((axis, rank))
        if group is None:
            group = self._grid.collective_group(rank, axis)
            self._groups.update({(axis, each): group for each in group})
            self._places.update({(axis, each): place for place, each in enumerate(group)})
        return group

    def _pending_collective(self, group: tuple[int, ...], iteration: int, op: Call) -> PendingCollective:
        key = (op.axis, group[0], iteration, op.key)
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = PendingCollective(self._begin(self._members(group, op)), len(group))
            if op.axis == "tensor" and self._checks_sync:
                pending.collective.finished.callbacks.append(partial(self._check_ends, len(group)))
        return pending

    def _check_ends(self, num_gpus: int, finished: simpy.Event) -> None:
        """Note whether GPUs that split layers ended a collective at the same time."""
        assert isinstance(finished.value, PlayTimes)
        self.check_sync(finished.value.end_s[:num_gpus])

    def _members(self, group: tuple[int, ...], op: Call) -> CollectiveMembers:
        """Return the members of a group's collective."""
        key = (op.axis, group[0], op.operation)
        if op.token_route is not None and key not in self._known_members:
            gpus = self._gpus[list(group)]
            domains = by_host(self._network.topology.gpu_domains[gpus])
            schedule = expert_schedule(domains, op.num_bytes, op.token_route)
            nodes = self._network.topology.gpus[gpus].astype(np.int64)
            self._known_members[key] = CollectiveMembers(schedule, nodes, range(len(group)))
        if key not in self._known_members:
            topology, gpus = self._network.topology, np.roll(self._gpus[list(group)], -op.root)
            algorithm = self._algorithm_of(op)
            _, schedule = schedule_collective(op.op, algorithm, topology, gpus, op.num_bytes, self._transport.library)
            nodes = np.append(topology.gpus[gpus], np.array(extra_ranks(schedule, topology, gpus), dtype=np.int64))
            delay_s = pauses_s(schedule, topology, gpus, self._transport.library, op.op, algorithm)
            self._known_members[key] = CollectiveMembers(schedule, nodes.astype(np.int64), range(len(group)), delay_s)
        return self._known_members[key]

    def _begin(self, members: CollectiveMembers) -> Collective:
        """Begin a collective which no GPU has entered yet; switches and memories enter at once."""
        collective = self._network.begin_at(members.schedule, members.nodes, members.delay_s)
        if len(members.gpus) < members.schedule.num_ranks:
            others = np.setdiff1d(np.arange(members.schedule.num_ranks), members.gpus).tolist()
            collective.enter_each(others, [float(self._env.now)] * len(others))
        return collective

    def _algorithm_of(self, op: Call) -> str:
        """Return the scenario's algorithm for sums and gathers among copies, `auto` for all other collectives."""
        is_other = op.has_root or op.op == "all-to-all"
        return self._algorithm if op.axis in _REPLICA_AXES and not is_other else "auto"


def _when_all_done(events: Sequence[simpy.Event], begin: Callable[[simpy.Event], None], done: simpy.Event) -> None:
    """Call `begin(done)` when all events have fired."""
    num_left = len(events)

    def count_down(_: simpy.Event) -> None:
        nonlocal num_left
        num_left -= 1
        if not num_left:
            begin(done)

    for each in events:
        each.callbacks.append(count_down)
