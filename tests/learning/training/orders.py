"""Orders of training made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clustersim.learning import ReplicaEvents, ReplicaOrder, SharedModelOrder
from clustersim.learning.order import APPLY, READ
from clustersim.results import ALL_WORKERS, Update, UpdateLog

Row = tuple[int, int, int] | tuple[int, int, int, float] | tuple[int, int, int, float, bool]


def shared(num_workers: int, rows: Iterable[Row]) -> SharedModelOrder:
    """Return an order of rows (worker, version read, version written, rate = 1, accepted = True), one a second."""
    log = UpdateLog()
    for number, (worker, read, written, *rest) in enumerate(rows):
        rate, accepted = (*rest, *(1.0, True)[len(rest) :])
        log.add(Update(float(number + 1), worker, read, written, float(rate), bool(accepted)))
    return SharedModelOrder(num_workers, log, [(worker,) for worker in range(num_workers)])


def synchronous(num_workers: int, num_updates: int) -> SharedModelOrder:
    return shared(num_workers, ((ALL_WORKERS, version, version + 1) for version in range(num_updates)))


def stale(staleness: int, num_updates: int) -> SharedModelOrder:
    """Return an order of one worker's updates, each so many versions late as soon as there are as many."""
    return shared(1, ((0, max(0, version - staleness), version + 1) for version in range(num_updates)))


def random_asynchronous(num_workers: int, num_updates: int) -> SharedModelOrder:
    """Return an order in which a random worker is next, and reads what it has made."""
    workers = np.random.default_rng(0).integers(num_workers, size=num_updates).tolist()
    read = [0] * num_workers
    rows: list[Row] = []
    for version, worker in enumerate(workers):
        rows.append((worker, read[worker], version + 1))
        read[worker] = version + 1
    return shared(num_workers, rows)


def replicas(
    num_workers: int,
    num_rounds: int,
    after: Sequence[int] = (),
    steps: int = 1,
    mixing: np.ndarray | None = None,
    outer_number: str = "fp32",
) -> ReplicaOrder:
    """Return an order of rounds in which every worker makes `steps` updates, and events of all workers come `after`."""
    events = ReplicaEvents()
    for number in range(num_rounds):
        for step in range(steps):
            time_s = float(number * steps + step + 1)
            for kind in (READ, APPLY):
                for worker in range(num_workers):
                    events.add(time_s, kind, worker)
        for kind in after:
            events.add(time_s, kind)
    return ReplicaOrder(num_workers, events, mixing, outer_number)
