"""Where ranks meet in collectives, one for each iteration and bucket."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.network import Collective
from clustersim.program import Bucket
from clustersim.strategies.day import Process, Where, fire
from clustersim.strategies.job import Job


@dataclass(frozen=True)
class Exchange:
    """How one bucket is exchanged: a schedule over nodes, workers first, then servers.

    `delay_s` [num_nodes, num_steps] are pauses. A worker's next bucket may follow when the worker has
    reached the step `follow`.
    """

    schedule: Schedule
    nodes: Sequence[Hashable]
    algorithm: str
    follow: int
    delay_s: np.ndarray | None = None


class Desk:
    """One collective per iteration and bucket, opened by the first that comes of `ranks` (all of the job).

    Each waits for all of them; or only for its neighbours, where those are given [num_ranks].
    """

    def __init__(
        self,
        job: Job,
        exchanges: Sequence[Exchange],
        ranks: Sequence[int] | None = None,
        neighbours: Sequence[Sequence[int]] | None = None,
    ):
        self._job = job
        self._exchanges = exchanges
        self._places = {rank: place for place, rank in enumerate(range(job.num_ranks) if ranks is None else ranks)}
        self._everybody = np.array(list(self._places))
        self._neighbours = None if neighbours is None else [np.array(near, dtype=np.int64) for near in neighbours]
        self._open: dict[tuple[int, int], Collective] = {}
        self._to_come: dict[tuple[int, int], int] = {}

    @property
    def algorithms(self) -> tuple[str, ...]:
        """What each bucket is exchanged by [num_buckets]."""
        return tuple(exchange.algorithm for exchange in self._exchanges)

    def goes_anywhere(self, bucket: int) -> bool:
        """Say whether a bucket goes anywhere; that of a lone worker need not."""
        return self._exchanges[bucket].schedule.num_steps > 0

    def exchange(self, where: Where, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Take a rank through the collective of its bucket."""
        rank, iteration, number = where
        collective = self.enter_together([rank], iteration, number)
        place = self._places[rank]
        followed, done = collective.reached(place, self.follow(number)), collective.done(place)
        yield followed
        fire(pushed)
        yield done

    def follow(self, bucket: int) -> int:
        """Return the step that a worker's bucket reaches before its next one may follow."""
        return self._exchanges[bucket].follow

    def enter_together(self, ranks: Sequence[int], iteration: int, bucket: int) -> Collective:
        """Let ranks enter the collective of their bucket, for whom others may have waited; return it.

        What they wait for in it is best asked for at once: later, it may have been worked out without that.
        """
        collective = self._enter(ranks, iteration, bucket)
        self._note_arrivals(ranks, iteration, bucket)
        return collective

    def enter(self, where: Where) -> Collective:
        """Let a rank for whom nobody waits enter the collective of its bucket; return it."""
        return self._enter(where[:1], *where[1:])

    def _enter(self, ranks: Sequence[int], iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            collective.enter(*range(len(self._places), exchange.schedule.num_ranks))
            self._open[key], self._to_come[key] = collective, len(self._places)
        collective = self._open[key]
        collective.enter(*(self._places[rank] for rank in ranks))
        self._to_come[key] -= len(ranks)
        if not self._to_come[key]:
            del self._open[key], self._to_come[key]
        return collective

    def _note_arrivals(self, ranks: Sequence[int], iteration: int, bucket: int) -> None:
        """Note for whom others wait: who has just come is the last so far."""
        if self._neighbours is not None:
            for rank in ranks:
                self._note_awaited(self._neighbours[rank], rank, iteration, bucket)
        elif (iteration, bucket) not in self._open:
            self._note_awaited(self._everybody, ranks[-1], iteration, bucket)

    def _note_awaited(self, waiting: np.ndarray, rank: int, iteration: int, bucket: int) -> None:
        self._job.times.awaited_s[waiting, iteration, bucket] = self._job.env.now
        self._job.times.awaited_rank[waiting, iteration, bucket] = rank
