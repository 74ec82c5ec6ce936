"""Collectives of a layout of whom the first rank of each stage enters for all groups of it."""

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
from clustersim.program.ops import Call
from clustersim.shortcuts.folding import Folding


class FoldedLayoutCollectives(LayoutCollectives):
    """Collectives that the first rank of a stage enters with all of its group, and with the other groups beside it."""

    def __init__(
        self,
        network: Network,
        gpus: np.ndarray,
        grid: Grid,
        algorithm: str,
        transport: Transport,
        devices: Mapping[int, GpuDevice],
        fold: Folding,
    ):
        # Whether parts end together is compared for all groups, as they leave.
        super().__init__(network, gpus, grid, algorithm, transport, devices, looks_together=False)
        self._each = grid.num_ranks // grid.pipeline
        self._all, self._are_isomorphic = np.array(fold.exchanging), fold.are_isomorphic
        self.exchanging: set[int] = set()  # stages whose gradients may be on their way
        self._beside_each_other: dict[tuple[str, int, str, float, int], Sequence[CollectiveMembers]] = {}

    def enter(
        self, rank: int, iteration: int, op: Call, after: simpy.Event | None
    ) -> tuple[PendingCollective, simpy.Event]:
        """Enter a collective with all of the group, and those of the other groups of the stage beside it."""
        if op.axis != "tensor":
            self.exchanging.add(self._grid.stage(rank))
        parties = self._all_parties(rank, op)
        meeting = PendingCollective(self._begin(parties[0]), 1)
        meeting.ask(float(self._env.now))
        return meeting, self._in_turn(rank, op, after, partial(self._come_together, rank, meeting, parties, op))

    def _all_parties(self, rank: int, op: Call) -> Sequence[CollectiveMembers]:
        """Return how all groups of a rank's stage go through a collective, its own first.

        Those that split layers do so side by side as one, where they stand to each other as isomorphic.
        """
        known = (op.axis, rank, op.op, op.num_bytes, op.root)
        if known not in self._beside_each_other:
            others = np.arange(self._each) if op.axis == "tensor" else self._all
            groups = dict.fromkeys(self._group(other, op.axis) for other in (rank + others).tolist())
            parties = [self._party(group, op) for group in groups]
            joined = _as_one(parties) if op.axis == "tensor" and self._are_isomorphic else None
            self._beside_each_other[known] = parties if joined is None else [joined]
        return self._beside_each_other[known]

    def _come_together(
        self, rank: int, meeting: PendingCollective, parties: Sequence[CollectiveMembers], op: Call, done: simpy.Event
    ) -> None:
        ends_s: list[float] = []
        for number, party in enumerate(parties):
            collective = self._begin(party) if number else meeting.collective
            collective.finished.callbacks.append(partial(self._leave, ends_s, party))
            collective.enter(*party.gpus)
        meeting.collective.done(0, done)
        del meeting.collective
        if op.axis != "tensor":
            self._hold(rank, self._group(rank, op.axis), op, done)

    def _leave(self, ends_s: list[float], party: CollectiveMembers, finished: simpy.Event) -> None:
        """Note whether all GPUs of a collective were done at the same time, and with those of groups beside it."""
        own_s = each_end_s(finished)
        if len(party.gpus) < len(own_s):
            own_s = own_s[np.asarray(party.gpus)]
        ends_s.append(float(own_s[0]))
        self.compare(own_s if ends_s[0] == ends_s[-1] else np.append(own_s, ends_s[0]))


def each_end_s(event: simpy.Event) -> np.ndarray:
    """Return when each of what an event stands for had ended: the messages of some, or the parts of a collective."""
    times = event.value
    assert isinstance(times, TransferTimes | PlayTimes)
    return times.end_s


def _as_one(parties: Sequence[CollectiveMembers]) -> CollectiveMembers | None:
    """Return parties that have nothing to do with each other as one; None where their schedules are not alike."""
    schedule = concurrent_groups([party.schedule for party in parties])
    if schedule is None or len(parties) == 1:
        return None
    firsts = np.cumsum([0, *(party.schedule.num_ranks for party in parties)]).tolist()
    gpus = [first + gpu for first, party in zip(firsts, parties, strict=False) for gpu in party.gpus]
    return CollectiveMembers(schedule, np.concatenate([party.nodes for party in parties]), gpus)
