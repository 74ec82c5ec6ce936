"""A rendezvous at servers that delay pulls: they update one bucket after another, or wait for all buckets."""

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
    """A server's share of a bucket: the number of the server, and the seconds of its update."""

    server: int
    update_s: float


@dataclass(frozen=True)
class PullSource:
    """The sender of a pull: rank `rank` of a collective in which `num_servers` have a share, and its memory."""

    collective: Collective
    rank: int
    memory: Hashable
    num_servers: int


class ServerRendezvous(Rendezvous):
    """A rendezvous in which each server of a bucket has two ranks: one receives the push, one sends the pull.

    The ranks of a collective are the workers, the receiving ranks of the bucket's `shares`, the sending ranks in the
    same memories, and then the threads of processes, if any (`with_receive_cost`). A sending rank enters when its share
    is updated. With `one_core` a server updates one bucket after another, in order of arrival; else each at once. With
    `pulls_together` no sending rank enters before every server has updated all buckets of the iteration.
    """

    ranks_per_server: ClassVar[int] = 2
    """Number of ranks of a collective that each server has."""

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        shares: Sequence[Sequence[ServerShare]],
        one_core: bool,
        pulls_together: bool,
    ):
        super().__init__(job, exchanges)
        self._shares, self._one_core, self._pulls_together = shares, one_core, pulls_together
        self._free_s: dict[int, float] = {}  # by server: the end of the last update that has been scheduled
        self._updated_sources: dict[int, list[PullSource]] = {}  # by iteration: those that wait for the others

    def _enter(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            first, num_servers = len(self._places), len(self._shares[bucket])
            receiving = range(first, first + num_servers)
            threads = range(first + self.ranks_per_server * num_servers, exchange.schedule.num_ranks)
            entering = [*receiving, *threads]
            collective.enter_each(entering, [float(times_s.min())] * len(entering))
            collective.watch(receiving, exchange.push_step, partial(self._pushed, collective, iteration, bucket))
            self._open[key], self._num_missing[key] = collective, len(self._places)
        return super()._enter(ranks, times_s, iteration, bucket)

    def _pushed(self, collective: Collective, iteration: int, bucket: int, receiving: list[int]) -> None:
        """Schedule the updates of servers that have just received all gradients of a bucket."""
        now_s, shares = float(self._job.env.now), self._shares[bucket]
        for rank in receiving:
            share = shares[rank - len(self._places)]
            start_s = max(now_s, self._free_s.get(share.server, 0.0)) if self._one_core else now_s
            self._free_s[share.server] = start_s + share.update_s
            updated = self._job.env.timeout(start_s + share.update_s - now_s)
            sending = rank + len(shares)
            source = PullSource(collective, sending, self._exchanges[bucket].nodes[sending], len(shares))
            updated.callbacks.append(partial(self._updated, iteration, source))

    def _updated(self, iteration: int, source: PullSource, event: simpy.Event) -> None:
        """Start the pull from a source; with `pulls_together` start all pulls after the last update."""
        sources = [source]
        if self._pulls_together:
            sources = self._updated_sources.setdefault(iteration, [])
            sources.append(source)
            if len(sources) < sum(map(len, self._shares)):
                return
            del self._updated_sources[iteration]
        for each in sources:
            self._start_pull(each)

    def _start_pull(self, source: PullSource) -> None:
        """Enter the sending rank of a server."""
        source.collective.enter(source.rank)
