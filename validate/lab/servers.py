"""A parameter server for real: workers that sleep and push over torch's send, and a server that applies and answers."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from validate.lab.collectives import ITEM_BYTES, begin_group
from validate.lab.ranks import Place

_LEARNING_RATE = 1e-6
_OVER = -1.0
"""What the first parameter is when there is no more to do; it is 1 otherwise, and no gradient changes it."""


@dataclass(frozen=True)
class Mode:
    """How a server treats gradients: `kind` is server, backup, async or bounded-staleness, as in a scenario."""

    kind: str
    backups: int = 0
    bound: int = 0


Log = list[tuple[float, int, int, int, bool]]
"""What became of gradients: (time, worker, version read, version written, accepted), as in clustersim's log."""


def between_updates(log: Log, before: int) -> list[float]:
    """Return the seconds between updates, from the one called `before` on [num_updates - before].

    >>> between_updates([(1.0, 0, 0, 1, True), (1.5, 1, 0, 2, True), (1.7, 2, 0, 3, False), (2.5, 0, 1, 3, True)], 1)
    [0.5, 1.0]
    """
    updated = sorted({written: at for at, _, _, written, accepted in log if accepted}.items())
    return [later - earlier for (_, earlier), (_, later) in pairwise(updated[before - 1 :])]


class Book(ABC):
    """What the server knows, under one lock: the model's version, and the log of gradients."""

    def __init__(self, num_workers: int, num_updates: int):
        self.num_workers, self.num_updates = num_workers, num_updates
        self.version = 0
        self.read = [0] * num_workers
        self.log: Log = []
        self.changed = threading.Condition()

    @property
    def is_over(self) -> bool:
        return self.version >= self.num_updates

    @abstractmethod
    def apply(self, worker: int) -> bool:
        """Take a gradient into account, or drop it; say whether it is applied."""

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Say whether a worker may read and begin its next iteration."""

    def note(self, worker: int, written: int, accepted: bool) -> None:
        """Put a gradient into the log."""
        self.log.append((time.monotonic(), worker, self.read[worker], written, accepted))


@dataclass
class _Taken:
    """The gradients of an update that is not complete yet."""

    workers: list[int] = field(default_factory=list)


class FirstGradients(Book):
    """An update takes the first gradients of its version: all but `backups` of them."""

    def __init__(self, num_workers: int, num_updates: int, backups: int):
        super().__init__(num_workers, num_updates)
        self._wanted = num_workers - backups
        self._taken = _Taken()

    def apply(self, worker: int) -> bool:
        if self.read[worker] != self.version:
            self.note(worker, self.version + 1, accepted=False)
            return False
        self._taken.workers.append(worker)
        if len(self._taken.workers) == self._wanted:
            for one in self._taken.workers:
                self.note(one, self.version + 1, accepted=True)
            self.version, self._taken = self.version + 1, _Taken()
        return True

    def may_go_on(self, worker: int) -> bool:
        return self.version > self.read[worker]


class EveryOne(Book):
    """Every gradient makes a version; no worker is more than `bound` iterations ahead of the slowest."""

    def __init__(self, num_workers: int, num_updates: int, bound: int | None):
        super().__init__(num_workers, num_updates)
        self._bound = bound
        self._clocks = [0] * num_workers

    def apply(self, worker: int) -> bool:
        self.note(worker, self.version + 1, accepted=True)
        self.version += 1
        self._clocks[worker] += 1
        return True

    def may_go_on(self, worker: int) -> bool:
        return self._bound is None or self._clocks[worker] - min(self._clocks) <= self._bound


def open_book(mode: Mode, num_workers: int, num_updates: int) -> Book:
    """Return the rules of a mode.

    >>> book = open_book(Mode("backup", backups=1), num_workers=2, num_updates=10)
    >>> book.apply(worker=1), book.version, book.apply(worker=0)
    (True, 1, False)
    """
    if mode.kind in ("server", "backup"):
        return FirstGradients(num_workers, num_updates, mode.backups)
    return EveryOne(num_workers, num_updates, mode.bound if mode.kind == "bounded-staleness" else None)


def serve_and_work(
    place: Place, store: str, mode: Mode, num_bytes: int, draws_s: Sequence[Sequence[float]], num_updates: int
) -> Log:
    """Train until there are so many updates; return the log where this rank is the server, which is the last one.

    `draws_s` [num_workers][num_iterations] are the seconds that each worker computes.
    """
    import torch.distributed as dist

    begin_group(place, store)
    try:
        place.meet()
        if place.rank == place.num_ranks - 1:
            return _serve(open_book(mode, place.num_ranks - 1, num_updates), num_bytes)
        _work(place, num_bytes, draws_s[place.rank])
        return []
    finally:
        place.meet()
        dist.destroy_process_group()


def _work(place: Place, num_bytes: int, draws_s: Sequence[float]) -> None:
    """Compute, push, pull, until the server says that it is over."""
    import torch
    import torch.distributed as dist

    gradient, parameters = torch.zeros(num_bytes // ITEM_BYTES), torch.zeros(num_bytes // ITEM_BYTES)
    server = place.num_ranks - 1
    for compute_s in draws_s:
        time.sleep(compute_s)
        dist.send(gradient, server)
        dist.recv(parameters, server)
        if parameters[0].item() == _OVER:
            return
    raise RuntimeError(f"worker {place.rank} has no compute time for iteration {len(draws_s)}")


def _serve(book: Book, num_bytes: int) -> Log:
    """Answer every worker, with a thread for each, until all have been told that it is over."""
    import torch

    parameters = torch.ones(num_bytes // ITEM_BYTES)
    failures: list[BaseException] = []

    def answer_and_tell(worker: int) -> None:
        try:
            _answer(book, worker, parameters)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=answer_and_tell, args=(worker,)) for worker in range(book.num_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return book.log


def _answer(book: Book, worker: int, parameters: Any) -> None:
    """Receive a worker's gradients one by one; apply each, wait as the rules say, and send the parameters back."""
    import torch
    import torch.distributed as dist

    gradient = torch.zeros_like(parameters)
    over = torch.full_like(parameters, _OVER)
    while True:
        dist.recv(gradient, worker)
        with book.changed:
            if not book.is_over and book.apply(worker):
                parameters.add_(gradient, alpha=-_LEARNING_RATE)
                book.changed.notify_all()
            book.changed.wait_for(lambda: book.is_over or book.may_go_on(worker))
            book.read[worker] = book.version
            is_over = book.is_over
        dist.send(over if is_over else parameters, worker)
        if is_over:
            return
