"""A desk whose servers take their time: they update one bucket after another, or hand all out together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class PatientDesk(Desk):
    """A desk at which an exchange has twice as many servers as it needs: those that take, and those that give.

    Behind the workers come the servers that take a bucket's `shares`, then as many in the same memory that give
    it back, and then threads of processes, if any (`with_taking_in`). Those that give enter when the bucket has been
    updated: `in_turn` one bucket of a server after another, as they arrive, else each at once. `together`, none enters
    before every server has updated all that there is.
    """

    def __init__(
        self, job: Job, exchanges: Sequence[Exchange], shares: Sequence[Sequence[Share]], in_turn: bool, together: bool
    ):
        super().__init__(job, exchanges)
        self._shares, self._in_turn, self._together = shares, in_turn, together
        self._free_s: dict[int, float] = {}  # when a server has updated all that it has been given
        self._ready: dict[int, list[Callable[[], None]]] = {}  # of an iteration: givers that may enter

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
            give = partial(collective.enter, rank + len(shares))
            updated.callbacks.append(partial(self._updated, iteration, give))

    def _updated(self, iteration: int, give: Callable[[], None], event: simpy.Event) -> None:
        """Let a giver enter, or all of an iteration when this is the last."""
        if not self._together:
            give()
            return
        ready = self._ready.setdefault(iteration, [])
        ready.append(give)
        if len(ready) == sum(map(len, self._shares)):
            for each in self._ready.pop(iteration):
                each()
