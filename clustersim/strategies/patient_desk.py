"""A desk whose servers take their time: they update one bucket after another, or hand all out together."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from clustersim.network import Collective
from clustersim.strategies.desk import Desk, Exchange
from clustersim.strategies.job import Job


@dataclass(frozen=True)
class Share:
    """What a server has of a bucket: the number of the server, and the seconds that the update takes there."""

    server: int
    update_s: float


@dataclass(frozen=True)
class _Giver:
    """Who gives a bucket back: a rank of its collective, and the memory that it is in."""

    collective: Collective
    rank: int
    memory: Hashable


class PatientDesk(Desk):
    """A desk at which an exchange has twice as many servers as it needs: those that take, and those that give.

    Behind the workers come the servers that take a bucket's `shares`, then as many in the same memory that give
    it back, and then threads of processes, if any (`with_taking_in`). Those that give enter when the bucket has been
    updated: `in_turn` one bucket of a server after another, as they arrive, else each at once. `together`, none enters
    before every server has updated all that there is, and of `one_stream` the next one of a memory not before the one
    before it has given all.
    """

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        shares: Sequence[Sequence[Share]],
        in_turn: bool,
        together: bool,
        one_stream: bool = False,
    ):
        super().__init__(job, exchanges)
        self._shares, self._in_turn, self._together, self._one_stream = shares, in_turn, together, one_stream
        self._free_s: dict[int, float] = {}  # when a server has updated all that it has been given
        self._ready: dict[int, list[_Giver]] = {}  # of an iteration: those that may enter
        self._queues: dict[Hashable, deque[_Giver]] = {}  # of a memory: who gives, and who is to come after

    def _enter(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            taking = np.arange(len(self._shares[bucket])) + len(self._places)
            threads = np.arange(len(self._places) + 2 * len(taking), exchange.schedule.num_ranks)
            there = np.concatenate([taking, threads])
            collective.enter_each(there, np.full(len(there), times_s.min()))
            collective.watch(taking, exchange.follow, partial(self._arrived, collective, iteration, bucket))
            self._open[key], self._to_come[key] = collective, len(self._places)
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
            giver = _Giver(collective, behind, self._exchanges[bucket].nodes[behind])
            updated.callbacks.append(partial(self._updated, iteration, giver))

    def _updated(self, iteration: int, giver: _Giver, event: simpy.Event) -> None:
        """Let a giver enter, or all of an iteration when this is the last."""
        ready = [giver]
        if self._together:
            ready = self._ready.setdefault(iteration, [])
            ready.append(giver)
            if len(ready) < sum(map(len, self._shares)):
                return
            del self._ready[iteration]
        for each in ready:
            if not self._one_stream:
                each.collective.enter(each.rank)
                continue
            queue = self._queues.setdefault(each.memory, deque())
            queue.append(each)
            if len(queue) == 1:
                self._give(queue)

    def _give(self, queue: deque[_Giver]) -> None:
        """Let the first giver of a queue enter."""
        giver = queue[0]
        giver.collective.done(giver.rank).callbacks.append(partial(self._given, queue))
        giver.collective.enter(giver.rank)

    def _given(self, queue: deque[_Giver], event: simpy.Event) -> None:
        """Take the first giver, who has given all, out of its queue, and let the next one enter."""
        queue.popleft()
        if queue:
            self._give(queue)
