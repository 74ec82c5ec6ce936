"""The collectives in which the workers of a job exchange gradients, one for each iteration and bucket."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.execution.job import Job
from clustersim.execution.worker import BucketId, Process, fire
from clustersim.network import Collective
from clustersim.network.collective import PlayTimes
from clustersim.program import Bucket


@dataclass(frozen=True)
class Exchange:
    """How one bucket is exchanged: a schedule over `nodes`, workers first, then servers.

    `delay_s` [num_nodes, num_steps] are pauses before each step, in seconds. The bucket of a worker counts as pushed
    when the worker reaches the step `push_step`: its next bucket may then follow. The exchange occupies a share of each
    worker's multiprocessors, `sm_share` [num_ranks], 0 to 1; None means none.
    """

    schedule: Schedule
    nodes: Sequence[Hashable]
    algorithm: str
    push_step: int
    delay_s: np.ndarray | None = None
    sm_share: np.ndarray | None = None


class Rendezvous:
    """One collective for each iteration and bucket. The first of the `ranks` (all of the job) to enter begins it.

    Each rank waits for all of them, or only for its `neighbours` [num_ranks], where those are given.
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
        none = np.zeros(job.num_ranks)
        self._sm_shares = [none if exchange.sm_share is None else exchange.sm_share for exchange in exchanges]
        self._places = {rank: place for place, rank in enumerate(range(job.num_ranks) if ranks is None else ranks)}
        self._all_ranks = np.array(list(self._places))
        self._neighbours = None if neighbours is None else [np.array(near, dtype=np.int64) for near in neighbours]
        self._open: dict[tuple[int, int], Collective] = {}  # not all ranks have entered; by (iteration, bucket)
        self._num_missing: dict[tuple[int, int], int] = {}  # ranks that have not entered an open one
        self._latest: dict[tuple[int, int], tuple[float, int]] = {}  # the last entry so far: time in seconds, rank

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The name of the algorithm of each bucket's exchange [num_buckets]."""
        return tuple(exchange.algorithm for exchange in self._exchanges)

    @property
    def shares_sms(self) -> bool:
        """Whether any exchange occupies multiprocessors of a GPU that computes at the same time."""
        return any(share.any() for share in self._sm_shares)

    def sm_share(self, bucket: int) -> np.ndarray:
        """Return the share of each worker's multiprocessors that the exchange of a bucket occupies [num_ranks]."""
        return self._sm_shares[bucket]

    def push_step(self, bucket: int) -> int:
        """Return the step that a bucket reaches before the worker's next bucket may follow."""
        return self._exchanges[bucket].push_step

    def leaves_worker(self, bucket: int) -> bool:
        """Say whether a bucket is sent anywhere; the bucket of a lone worker may not be."""
        return self._exchanges[bucket].schedule.num_steps > 0

    @property
    def awaits_receivers(self) -> bool:
        """Whether a bucket may have to wait until the GPUs that receive it have computed."""
        return False

    def receivers_ahead(self, where: BucketId) -> list[int]:
        """Return the ranks that have begun this iteration and must end backward before the bucket can be sent."""
        return []

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Run a rank through the collective of its bucket; fire `pushed` at its push step."""
        rank, iteration, number = where
        if self._job.is_folded:
            collective = self.enter_together(self._all_ranks.tolist(), iteration, number)
            collective.finished.callbacks.append(self._check_sync)
        else:
            collective = self.enter_together([rank], iteration, number)
        place = self._places[rank]
        at_push_step, done = collective.reached(place, self.push_step(number)), collective.done(place)
        multiprocessors, share = self._job.devices[rank].multiprocessors, float(self.sm_share(number)[rank])
        if multiprocessors is not None and share:
            multiprocessors.occupy(share)
        yield at_push_step
        fire(pushed)
        yield done
        if self._job.is_folded and not collective.finished.processed:
            yield collective.finished  # so that `_check_sync` runs before the last iteration ends
        if multiprocessors is not None and share:
            multiprocessors.release(share)

    def _check_sync(self, finished: simpy.Event) -> None:
        """Note in the job whether all ranks of a folded job ended the collective at the same time."""
        assert isinstance(finished.value, PlayTimes)
        ends_s = finished.value.end_s[: len(self._places)]
        self._job.stayed_in_sync &= bool(np.allclose(ends_s, ends_s[0], rtol=1e-11, atol=0.0))

    def enter_together(self, ranks: Sequence[int], iteration: int, bucket: int) -> Collective:
        """Let ranks enter the collective of their bucket now; return it.

        Ask the collective for events at once: the network may work out its end in closed form, without later ones.
        """
        return self.enter_each(np.array(ranks), np.full(len(ranks), float(self._job.env.now)), iteration, bucket)

    def enter_each(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        """Let ranks [n] enter as `enter_together` does, each at its own time [n] in seconds, none in the past."""
        collective = self._enter(ranks, times_s, iteration, bucket)
        self._note_entries(ranks, times_s, iteration, bucket)
        return collective

    def enter(self, where: BucketId) -> Collective:
        """Let a rank that no other rank waits for enter the collective of its bucket; return it."""
        return self._enter(np.array(where[:1]), np.array([float(self._job.env.now)]), *where[1:])

    def _enter(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> Collective:
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            others = range(len(self._places), exchange.schedule.num_ranks)
            collective.enter_each(others, [float(times_s.min())] * len(others))
            self._open[key], self._num_missing[key] = collective, len(self._places)
        collective = self._open[key]
        collective.enter_each([self._places[rank] for rank in ranks.tolist()], times_s.tolist())
        self._num_missing[key] -= len(ranks)
        if not self._num_missing[key]:
            del self._open[key], self._num_missing[key]
        return collective

    def _note_entries(self, ranks: np.ndarray, times_s: np.ndarray, iteration: int, bucket: int) -> None:
        """Record which rank the others wait for: the last one whose entry is known so far."""
        if self._neighbours is not None:
            for rank, time_s in zip(ranks.tolist(), times_s.tolist(), strict=True):
                self._note_awaited(self._neighbours[rank], rank, time_s, iteration, bucket)
            return
        key, last = (iteration, bucket), len(ranks) - 1 - int(times_s[::-1].argmax())
        latest = max(self._latest.pop(key, (-np.inf, -1)), (float(times_s[last]), int(ranks[last])))
        if key in self._open:
            self._latest[key] = latest
        else:
            self._note_awaited(self._all_ranks, latest[1], latest[0], iteration, bucket)

    def _note_awaited(self, waiting: np.ndarray, rank: int, time_s: float, iteration: int, bucket: int) -> None:
        self._job.times.awaited_s[waiting, iteration, bucket] = time_s
        self._job.times.awaited_rank[waiting, iteration, bucket] = rank
