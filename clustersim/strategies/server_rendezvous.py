"""A rendezvous whose servers take their time: they update one bucket after another, or hand all out together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import simpy

from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.network import Collective


@dataclass(frozen=True)
class ServerShare:
    """What a server has of a bucket: the number of the server, and the seconds that the update takes there."""

    server: int
    update_s: float


@dataclass(frozen=True)
class PullSource:
    """Who gives a bucket back: one of so many ranks of its collective, and the memory that it is in."""

    collective: Collective
    rank: int
    memory: Hashable
    num_givers: int


class ServerRendezvous(Rendezvous):
    """A rendezvous at which an exchange has twice as many servers as it needs: those that take, and those that give.

    Behind the workers come the servers that take a bucket's `shares`, then as many in the same memory that give
    it back, and then threads of processes, if any (`with_receive_cost`). Those that give enter when the bucket has been
    updated: `in_turn` one bucket of a server after another, as they arrive, else each at once. `together`, none enters
    before every server has updated all that there is.
    """

    num_ends: ClassVar[int] = 2
    """How many ranks of an exchange a server is."""

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        shares: Sequence[Sequence[ServerShare]],
        in_turn: bool,
        together: bool,
    ):
        super().__init__(job, exchanges)
        self._shares, self._in_turn, self._together = shares, in_turn, together
        self._free_s: dict[int, float] = {}  # when a server has updated all that it has been given
        self._ready: dict[int, list[PullSource]] = {}  # of an iteration: those that may enter

    def _enter(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            first, num_taking = len(self._places), len(self._shares[bucket])
            taking = range(first, first + num_taking)
            there = [*taking, *range(first + self.num_ends * num_taking, exchange.schedule.num_ranks)]
            collective.enter_each(there, [float(times_s.min())] * len(there))
            collective.watch(taking, exchange.push_step, partial(self._arrived, collective, iteration, bucket))
            self._open[key], self._num_missing[key] = collective, len(self._places)
        return super()._enter(ranks, times_s, iteration, bucket)

    def _arrived(self, collective: Collective, iteration: int, bucket: int, taking: list[int]) -> None:
        """Let servers update that have all gradients of a bucket."""
        now_s, shares = float(self._job.env.now), self._shares[bucket]
        for rank in taking:
            share = shares[rank - len(self._places)]
            start_s = max(now_s, self._free_s.get(share.server, 0.0)) if self._in_turn else now_s
            self._free_s[share.server] = start_s + share.update_s
            updated = self._job.env.timeout(start_s + share.update_s - now_s)
            behind = rank + len(shares)
            giver = PullSource(collective, behind, self._exchanges[bucket].nodes[behind], len(shares))
            updated.callbacks.append(partial(self._updated, iteration, giver))

    def _updated(self, iteration: int, giver: PullSource, event: simpy.Event) -> None:
        """Let a giver enter, or all of an iteration when this is the last."""
        ready = [giver]
        if self._together:
            ready = self._ready.setdefault(iteration, [])
            ready.append(giver)
            if len(ready) < sum(map(len, self._shares)):
                return
            del self._ready[iteration]
        for each in ready:
            self._hand_out(each)

    def _hand_out(self, giver: PullSource) -> None:
        """Let a giver enter."""
        giver.collective.enter(giver.rank)
