"""Bounded staleness (stale synchronous parallel): asynchronous, with a bound on the lead over the slowest worker."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from clustersim.stragglers import Awaited
from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import Gradient, Shard, UpdateRule

_TIMES_FIRST_WAIT = 3
"""Updates before the measurement, in multiples of those before a worker first waits for the slowest."""

_CLOCKS_PER_LEAD = 20
"""Clocks of the slowest worker, for each clock that another one is ahead, from which on paces are taken for equal."""

_MOST_ROUNDS = 200
"""Most rounds before the measurement in which no worker waits; a round is one gradient of each worker, on average."""


class BoundedStaleness(StaleServerStrategy):
    """A worker waits if it would be more than `bound` iterations ahead of the slowest one (Ho et al., 2013).

    The clock of a worker is the number of its gradients in the model. A worker begins its iteration c, counted from 0,
    when every worker's clock is at least c - `bound`. So the parameters that it reads contain all older gradients. The
    bound applies to clocks. Staleness is counted in versions, as for every strategy, and every gradient makes one.
    """

    supports_layouts: ClassVar[bool] = True
    kind: Literal["bounded-staleness"] = "bounded-staleness"
    bound: int = Field(ge=0, description="iterations that a worker may be ahead of the slowest one")

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)  # a slower GPU stays slower, so the bound is reached in the end

    def update_rule(self, num_workers: int) -> UpdateRule:
        return SlowestWorker(self.bound, num_workers)


class SlowestWorker(UpdateRule):
    """Apply every gradient when it arrives; a worker pulls when the slowest is at most `bound` clocks behind.

    The job is steady some time after the fastest worker has first waited, because slower ones reach the bound later:
    after `_TIMES_FIRST_WAIT` as many updates. Take workers at steady paces. One that is l clocks ahead after c clocks
    of the slowest is faster than that one by a share of l / c. So the bound hardly matters for workers that have not
    reached it when l / c is below 1 / `_CLOCKS_PER_LEAD`.
    """

    def __init__(self, bound: int, num_workers: int):
        super().__init__(gradients_per_update=1)
        self.bound = bound
        self._clocks = [0] * num_workers  # gradients of each worker in the model
        self._first_wait: int | None = None  # updates before it
        self._was_steady = True

    def applied(self, rank: int) -> None:
        self._clocks[rank] += 1

    def waited(self, num_updates: int) -> None:
        if self._first_wait is None:
            self._first_wait = num_updates

    def is_steady(self, num_updates: int) -> bool:
        num_workers, first = len(self._clocks), self._first_wait
        if first is not None:
            most = _CLOCKS_PER_LEAD * (self.bound + 1) * num_workers
            return num_updates >= min(_TIMES_FIRST_WAIT * max(first, num_workers), max(first, most))
        if num_updates >= _MOST_ROUNDS * num_workers:
            self._was_steady = False
            return True
        slowest = min(self._clocks)
        return slowest >= _CLOCKS_PER_LEAD * max(1, max(self._clocks) - slowest)

    def warnings(self) -> tuple[str, ...]:
        if not self._was_steady:
            return (
                f"no worker reached the bound of {self.bound} iterations in the {_MOST_ROUNDS} rounds before the "
                "measurement: a longer one is slower; raise num_iterations",
            )
        if self._first_wait is None:
            rounds = sum(self._clocks) // len(self._clocks)
            return (
                f"no worker reached the bound of {self.bound} iterations in {rounds} rounds: so far it changes nothing",
            )
        return ()

    def progress(self, shard: Shard) -> int:
        return min(shard.num_applied)

    def needed_progress(self, gradient: Gradient) -> int:
        return gradient.iteration + 1 - self.bound
