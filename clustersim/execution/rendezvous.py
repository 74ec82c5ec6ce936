"""Where ranks meet in collectives, one for each iteration and bucket."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.execution.job import Job
from clustersim.execution.worker import Process, Where, fire
from clustersim.network import Collective
from clustersim.network.collective import PlayTimes
from clustersim.program import Bucket


@dataclass(frozen=True)
class Exchange:
    """How one bucket is exchanged: a schedule over nodes, workers first, then servers.

    `delay_s` [num_nodes, num_steps] are pauses. A worker's next bucket may follow when the worker has
    reached the step `follow`. Meanwhile it holds a share of each worker's multiprocessors (`held` [num_ranks]), or
    none.
    """

    schedule: Schedule
    nodes: Sequence[Hashable]
    algorithm: str
    follow: int
    delay_s: np.ndarray | None = None
    held: np.ndarray | None = None


class Rendezvous:
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
        nothing = np.zeros(job.num_ranks)
        self._held = [nothing if exchange.held is None else exchange.held for exchange in exchanges]
        self._places = {rank: place for place, rank in enumerate(range(job.num_ranks) if ranks is None else ranks)}
        self._everybody = np.array(list(self._places))
        self._neighbours = None if neighbours is None else [np.array(near, dtype=np.int64) for near in neighbours]
        self._open: dict[tuple[int, int], Collective] = {}
        self._to_come: dict[tuple[int, int], int] = {}
        self._latest: dict[tuple[int, int], tuple[float, int]] = {}  # of those that have come: when, and who

    @property
    def algorithms(self) -> tuple[str, ...]:
        """What each bucket is exchanged by [num_buckets]."""
        return tuple(exchange.algorithm for exchange in self._exchanges)

    @property
    def holds(self) -> bool:
        """Whether any exchange holds multiprocessors of those who compute beside it."""
        return any(held.any() for held in self._held)

    def held(self, bucket: int) -> np.ndarray:
        """Return the share of each worker's multiprocessors that the exchange of a bucket holds [num_ranks]."""
        return self._held[bucket]

    def goes_anywhere(self, bucket: int) -> bool:
        """Say whether a bucket goes anywhere; that of a lone worker need not."""
        return self._exchanges[bucket].schedule.num_steps > 0

    @property
    def awaits_receivers(self) -> bool:
        """Whether a bucket may have to wait for what the GPUs that get it compute."""
        return False

    def receivers_ahead(self, where: Where) -> list[int]:
        """Return the ranks that have begun this iteration, for which a bucket waits until they have computed."""
        return []

    def exchange(self, where: Where, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Take a rank through the collective of its bucket."""
        rank, iteration, number = where
        if self._job.plays_as_one:
            collective = self.enter_together(self._everybody.tolist(), iteration, number)
            collective.finished.callbacks.append(self._compare)
        else:
            collective = self.enter_together([rank], iteration, number)
        place = self._places[rank]
        followed, done = collective.reached(place, self.follow(number)), collective.done(place)
        own, share = self._job.devices[rank].multiprocessors, float(self.held(number)[rank])
        if own is not None and share:
            own.hold(share)
        yield followed
        fire(pushed)
        yield done
        if self._job.plays_as_one and not collective.finished.processed:
            yield collective.finished  # so that it is compared before the last iteration is over
        if own is not None and share:
            own.let_go(share)

    def _compare(self, finished: simpy.Event) -> None:
        """Note whether ranks of whom the first plays for all were done at the same time."""
        assert isinstance(finished.value, PlayTimes)
        ends_s = finished.value.end_s[: len(self._places)]
        self._job.has_kept_together &= bool(np.allclose(ends_s, ends_s[0], rtol=1e-11, atol=0.0))

    def follow(self, bucket: int) -> int:
        """Return the step that a worker's bucket reaches before its next one may follow."""
        return self._exchanges[bucket].follow

    def enter_together(self, ranks: Sequence[int], iteration: int, bucket: int) -> Collective:
        """Let ranks enter the collective of their bucket, for whom others may have waited; return it.

        What they wait for in it is best asked for at once: later, it may have been worked out without that.
        """
        return self.enter_each(np.array(ranks), np.full(len(ranks), float(self._job.env.now)), iteration, bucket)

    def enter_each(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        """Let ranks enter as `enter_together` does, each from its own time on, none of which is before now."""
        collective = self._enter(ranks, times_s, iteration, bucket)
        self._note_arrivals(ranks, times_s, iteration, bucket)
        return collective

    def enter(self, where: Where) -> Collective:
        """Let a rank for whom nobody waits enter the collective of its bucket; return it."""
        return self._enter(np.array(where[:1]), np.array([float(self._job.env.now)]), *where[1:])

    def _enter(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            others = range(len(self._places), exchange.schedule.num_ranks)
            collective.enter_each(others, [float(times_s.min())] * len(others))
            self._open[key], self._to_come[key] = collective, len(self._places)
        collective = self._open[key]
        collective.enter_each([self._places[rank] for rank in ranks.tolist()], times_s.tolist())
        self._to_come[key] -= len(ranks)
        if not self._to_come[key]:
            del self._open[key], self._to_come[key]
        return collective

    def _note_arrivals(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> None:
        """Note for whom others wait: who comes last of those who are known to come so far."""
        if self._neighbours is not None:
            for rank, time_s in zip(ranks.tolist(), times_s.tolist(), strict=True):
                self._note_awaited(self._neighbours[rank], rank, time_s, iteration, bucket)
            return
        key, last = (iteration, bucket), len(ranks) - 1 - int(times_s[::-1].argmax())
        latest = max(self._latest.pop(key, (-np.inf, -1)), (float(times_s[last]), int(ranks[last])))
        if key in self._open:
            self._latest[key] = latest
        else:
            self._note_awaited(self._everybody, latest[1], latest[0], iteration, bucket)

    def _note_awaited(self, waiting: np.ndarray, rank: int, time_s: float, iteration: int, bucket: int) -> None:
        self._job.times.awaited_s[waiting, iteration, bucket] = time_s
        self._job.times.awaited_rank[waiting, iteration, bucket] = rank
