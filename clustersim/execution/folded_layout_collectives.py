"""Collectives of a folded layout: the first rank of each stage enters them for all groups of the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import simpy

from clustersim.collectives.concurrent_groups import concurrent_groups
from clustersim.devices import GpuDevice
from clustersim.execution.layout_collectives import CollectiveMembers, LayoutCollectives, PendingCollective
from clustersim.hardware.sheet import Transport
from clustersim.network import Network, TransferTimes
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import Grid
from clustersim.program.ops import Call, CollectiveOp
from clustersim.shortcuts.folding import Folding


class FoldedLayoutCollectives(LayoutCollectives):
    """Collectives that the first rank of a stage enters for its whole group, and for the other groups of the stage.

    `exchanging` are the stages whose gradients may be in flight.
    """

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        devices: Mapping[int, GpuDevice],
        folding: Folding,
    ):
        # `_note_ends` checks all groups of a stage, so the check of one group is off.
        super().__init__(network, gpus, grid, algorithm, transport, devices, checks_sync=False)
        self._stage_size = grid.num_ranks // grid.pipeline
        self._exchanging_places, self._are_isomorphic = np.array(folding.exchanging), folding.are_isomorphic
        self.exchanging: set[int] = set()
        self._known_groups: dict[tuple[str, int, CollectiveOp], Sequence[CollectiveMembers]] = {}

    def enter(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective, simpy.Event]:
        """Enter a collective with the whole group, and the collectives of the other groups of the stage.

        Return the collective, and the event of the end of the rank's part.
        """
        if op.axis != "tensor":
            self.exchanging.add(self._grid.stage(rank))
        groups = self._all_groups(rank, op)
        pending = PendingCollective(self._begin(groups[0]), 1)
        pending.note_call(float(self._env.now))
        return pending, self._begin_in_order(rank, op, after, partial(self._enter_all, rank, pending, groups, op))

    def _all_groups(self, rank: int, op: Call) -> Sequence[CollectiveMembers]:
        """Return the members of the collectives of all groups of a rank's stage, its own group first.

        Groups that split layers form one joint collective, where they are isomorphic.
        """
        key = (op.axis, rank, op.operation)
        if key not in self._known_groups:
            others = np.arange(self._stage_size) if op.axis == "tensor" else self._exchanging_places
            groups = dict.fromkeys(self._group(other, op.axis) for other in (rank + others).tolist())
            members = [self._members(group, op) for group in groups]
            joint = _joint(members) if op.axis == "tensor" and self._are_isomorphic else None
            self._known_groups[key] = members if joint is None else [joint]
        return self._known_groups[key]

    def _enter_all(
        self, rank: int, pending: PendingCollective, groups: Sequence[CollectiveMembers], op: Call, done: simpy.Event
    ) -> None:
        first_ends_s: list[float] = []
        for number, members in enumerate(groups):
            collective = self._begin(members) if number else pending.collective
            collective.finished.callbacks.append(partial(self._note_ends, first_ends_s, members))
            collective.enter(*members.gpus)
        pending.collective.done(0, done)
        del pending.collective
        if op.axis != "tensor":
            self._occupy_sms(rank, self._group(rank, op.axis), op, done)

    def _note_ends(self, first_ends_s: list[float], members: CollectiveMembers, finished: simpy.Event) -> None:
        """Check whether all GPUs of a collective ended at the same time, and at that of the groups before it."""
        own_s = ends_s(finished)
        if len(members.gpus) < len(own_s):
            own_s = own_s[np.asarray(members.gpus)]
        first_ends_s.append(float(own_s[0]))
        self.check_sync(own_s if first_ends_s[0] == first_ends_s[-1] else np.append(own_s, first_ends_s[0]))


def ends_s(event: simpy.Event) -> np.ndarray:
    """Return the end of each message of a transfer, or of each rank of a collective, in seconds [n]."""
    times = event.value
    assert isinstance(times, TransferTimes | PlayTimes)
    return times.end_s


def _joint(groups: Sequence[CollectiveMembers]) -> CollectiveMembers | None:
    """Return independent groups as the members of one collective; None where their schedules differ."""
    schedule = concurrent_groups([members.schedule for members in groups])
    if schedule is None or len(groups) == 1:
        return None
    firsts = np.cumsum([0, *(members.schedule.num_ranks for members in groups)]).tolist()
    gpus = [first + gpu for first, members in zip(firsts, groups, strict=False) for gpu in members.gpus]
    return CollectiveMembers(schedule, np.concatenate([members.nodes for members in groups]), gpus)
