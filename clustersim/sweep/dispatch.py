"""Gives batches of items to workers, takes their results as they come, and repeats what ended with its worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Protocol

from clustersim.errors import ExecutorError
from clustersim.sweep.batch import BATCH_S, Done, Packed

_AHEAD = 2
"""Batches that are sent per worker: one in work, and another that waits for it."""

_MOST_ITEMS = 100
"""Items of a batch."""

_MOST_DEATHS = 3
"""Workers that may end while one item is in work."""

_MOST_LOST = 10
"""Batches that may be lost one after the other before one without items shows whether workers can work at all."""


@dataclass(frozen=True)
class Lost:
    """The workers that had a batch ended, `deaths` of them."""

    message: str
    deaths: int = 1


class Workers(Protocol):
    """Workers that do batches; executors differ in these methods only."""

    @property
    def num_workers(self) -> int:
        """The number of batches that are in work at the same time."""

    def submit(self, ticket: int, batch: Packed) -> None:
        """Send a batch."""

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        """Wait until a batch is finished; yield the tickets of all that are."""


@dataclass
class _Item:
    """An item, its index, and how many workers ended while it was in work."""

    number: int
    content: Any
    deaths: int = 0


def dispatch(
    workers: Workers,
    work: Callable[[Any], Any],
    items: Iterable[Any],
    on_lost: Callable[[Any, str], Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield the index of each item with its result, as they are done; see `Executor.results`."""
    return _Dispatch(workers, work, items, on_lost).results()


class _Dispatch:
    """The state of one sweep: which items wait, which are in work, and which ended with their worker."""

    def __init__(
        self,
        workers: Workers,
        work: Callable[[Any], Any],
        items: Iterable[Any],
        on_lost: Callable[[Any, str], Any] | None,
    ):
        self._workers, self._work, self._on_lost = workers, work, on_lost
        self._new = (_Item(number, item) for number, item in enumerate(items))
        self._given_back: deque[list[_Item]] = deque()
        self._suspects: deque[_Item] = deque()
        self._in_work: dict[int, list[_Item]] = {}
        self._tickets = count()
        self._most_items = 1
        self._lost_in_a_row = 0

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield each result. Items whose worker ended come last and alone, so that the cause is known."""
        while True:
            self._submit_some()
            if not self._in_work:
                return
            for ticket, outcome in self._workers.finished():
                batch = self._in_work.pop(ticket)
                yield from self._lost(batch, outcome) if isinstance(outcome, Lost) else self._done(batch, outcome)

    def _submit_some(self) -> None:
        """Send batches to the free workers; after many losses one without items, when no other is in work."""
        if self._lost_in_a_row >= _MOST_LOST:
            if not self._in_work:
                self._submit([])
            return
        while len(self._in_work) < _AHEAD * max(1, self._workers.num_workers) and (batch := self._next()):
            self._submit(batch)
        if not self._in_work and self._suspects:
            self._submit([self._suspects.popleft()])

    def _next(self) -> list[_Item]:
        return self._given_back.popleft() if self._given_back else list(islice(self._new, self._most_items))

    def _submit(self, batch: list[_Item]) -> None:
        ticket = next(self._tickets)
        self._in_work[ticket] = batch
        self._workers.submit(ticket, Packed.of(self._work, [item.content for item in batch]))

    def _done(self, batch: list[_Item], done: Done) -> Iterator[tuple[int, Any]]:
        num_done = len(done.results)
        for item, result in zip(batch, done.results, strict=False):
            yield item.number, result
        if done.error is not None:
            raise done.error
        self._lost_in_a_row = 0
        if num_done < len(batch):
            self._given_back.append(batch[num_done:])
        if done.seconds > 0:
            fitting = int(BATCH_S * num_done / done.seconds)
            self._most_items = max(1, min(fitting, 2 * self._most_items, _MOST_ITEMS))

    def _lost(self, batch: list[_Item], lost: Lost) -> Iterator[tuple[int, Any]]:
        if not batch:
            raise ExecutorError(f"workers end even without a point: {lost.message}")
        self._lost_in_a_row += 1
        for item in batch:
            item.deaths += lost.deaths
        if len(batch) == 1 and batch[0].deaths > lost.deaths and batch[0].deaths >= _MOST_DEATHS:
            item = batch[0]
            if self._on_lost is None:
                raise ExecutorError(lost.message)
            yield item.number, self._on_lost(item.content, lost.message)
            return
        self._suspects.extend(batch)
