"""The order in which workers read and write weights, as it was simulated. Plain data: it needs neither clock nor torch.

Versions of a model count from 0, the weights before the first update. Times are seconds from the start of training.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from clustersim.results.updates import UpdateLog


@dataclass(frozen=True)
class SharedModelOrder:
    """All workers train one model: `log` has every gradient from the first on.

    A row of the log is the mean gradient of the workers in `members[row's worker]`, all computed on one version. Where
    the worker is ALL_WORKERS it is that of all `num_workers`. Rows that write the same version follow each other and
    make one update: the mean of their gradients weighted by their learning rates, at the mean of these rates. Rows that
    are not accepted are dropped.
    """

    num_workers: int
    log: UpdateLog
    members: Sequence[Sequence[int]]

    @property
    def num_updates(self) -> int:
        """Number of updates of the model."""
        written = np.asarray(self.log.version_written)[self.log.is_accepted]
        return int(written.max(initial=0))


READ, APPLY, PAIR, MIX, OUTER = range(5)
"""Kinds of events of `ReplicaOrder`."""


@dataclass
class ReplicaEvents:
    """What workers do with their own weights, in the order of time; columns [num_events].

    | kind | what happens |
    |---|---|
    | READ | `worker` begins to compute a gradient on its weights as they are now |
    | APPLY | the gradient that `worker` read last is applied to its weights as they are now, by its own optimizer |
    | PAIR | `worker` and `other` both set their weights to the mean of the two |
    | MIX | all weights are multiplied by the mixing matrix of the order |
    | OUTER | all workers set their weights to those of the outer optimizer, after its step with their mean change |

    `worker` and `other` are -1 where an event is of all workers.
    """

    time_s: array[float] = field(default_factory=lambda: array("d"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    worker: array[int] = field(default_factory=lambda: array("i"))
    other: array[int] = field(default_factory=lambda: array("i"))

    def add(self, time_s: float, kind: int, worker: int = -1, other: int = -1) -> None:
        """Add an event."""
        self.time_s.append(time_s)
        self.kind.append(kind)
        self.worker.append(worker)
        self.other.append(other)

    def add_iteration(self, end_s: float, num_workers: int, mixes: bool = False) -> None:
        """Add an iteration of all workers: they read when the one before has ended, and apply when this one has.

        If it `mixes`, all weights are mixed before they apply.
        """
        read_s = self.time_s[-1] if self.time_s else 0.0
        for worker in range(num_workers):
            self.add(read_s, READ, worker)
        if mixes:
            self.add(end_s, MIX)
        for worker in range(num_workers):
            self.add(end_s, APPLY, worker)

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True)
class ReplicaOrder:
    """Every worker trains its own weights, and workers average them now and then.

    `mixing` [num_workers, num_workers] is the matrix of MIX events; its rows sum to 1. `outer_number` is the number
    format in which changes are averaged at OUTER events: fp32, fp16, bf16 or int8. The model that is evaluated is
    the mean of all workers' weights. An update is one APPLY.
    """

    num_workers: int
    events: ReplicaEvents
    mixing: np.ndarray | None = None
    outer_number: str = "fp32"

    @property
    def num_updates(self) -> int:
        """Number of updates of any worker's weights."""
        return self.events.kind.count(APPLY)


@dataclass(frozen=True)
class StageOrder:
    """Pipeline stages update their own layers after every micro-batch (PipeDream).

    Stage s makes its version n + 1 with the gradient of micro-batch n, computed on its version n - `staleness[s]`
    (version 0 where that is negative). `time_s` [num_updates] is when all stages have made version n + 1. The
    gradient is the mean of those of `num_workers` replicas.
    """

    num_workers: int
    staleness: Sequence[int]
    time_s: np.ndarray

    @property
    def num_updates(self) -> int:
        """Number of updates of every stage."""
        return len(self.time_s)


TrainingOrder: TypeAlias = SharedModelOrder | ReplicaOrder | StageOrder
