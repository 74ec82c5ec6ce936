"""A real parameter server: workers sleep and send gradients with torch, and the server applies them and answers."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from validate.lab.collectives import ITEM_BYTES, begin_group
from validate.lab.ranks import RankContext

_LEARNING_RATE = 1e-6
_OVER = -1.0
"""Value of the first parameter at the end of the training; it is 1 before, and no gradient changes it."""


@dataclass(frozen=True)
class Mode:
    """How a server handles gradients: `kind` is server, backup, async or bounded-staleness, as in a scenario."""

    kind: str
    backups: int = 0
    bound: int = 0


Log = list[tuple[float, int, int, int, bool]]
"""The log of gradients: (time, worker, version read, version written, accepted), as in clustersim's log."""


def between_updates(log: Log, before: int) -> list[float]:
    """Return the seconds between updates, from version `before` on [num_updates - before].

    >>> between_updates([(1.0, 0, 0, 1, True), (1.5, 1, 0, 2, True), (1.7, 2, 0, 3, False), (2.5, 0, 1, 3, True)], 1)
    [0.5, 1.0]
    """
    updated = sorted({written: at for at, _, _, written, accepted in log if accepted}.items())
    return [later - earlier for (_, earlier), (_, later) in pairwise(updated[before - 1 :])]


class ServerState(ABC):
    """The state of the server, under one lock: the model's version, and the log of gradients."""

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
        """Use a gradient or drop it; return whether it is applied."""

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Return whether a worker may read the parameters and start its next iteration."""

    def note(self, worker: int, written: int, accepted: bool) -> None:
        """Add a gradient to the log."""
        self.log.append((time.monotonic(), worker, self.read[worker], written, accepted))


@dataclass
class _Taken:
    """The gradients of an update that is not complete."""

    workers: list[int] = field(default_factory=list)


class SynchronousServer(ServerState):
    """An update uses the first gradients of its version: all but `backups` of them."""

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


class AsynchronousServer(ServerState):
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


def server_state(mode: Mode, num_workers: int, num_updates: int) -> ServerState:
    """Return the initial state of a server of this mode.

    >>> state = server_state(Mode("backup", backups=1), num_workers=2, num_updates=10)
    >>> state.apply(worker=1), state.version, state.apply(worker=0)
    (True, 1, False)
    """
    if mode.kind in ("server", "backup"):
        return SynchronousServer(num_workers, num_updates, mode.backups)
    return AsynchronousServer(num_workers, num_updates, mode.bound if mode.kind == "bounded-staleness" else None)


def serve_and_work(
    context: RankContext, store: str, mode: Mode, num_bytes: int, draws_s: Sequence[Sequence[float]], num_updates: int
) -> Log:
    """Train for `num_updates` updates; return the log on the server, which is the last rank, else an empty list.

    `draws_s` [num_workers][num_iterations] are the compute times of each worker.
    """
    import torch.distributed as dist

    begin_group(context, store)
    try:
        context.barrier()
        if context.rank == context.num_ranks - 1:
            return _serve(server_state(mode, context.num_ranks - 1, num_updates), num_bytes)
        _work(context, num_bytes, draws_s[context.rank])
        return []
    finally:
        context.barrier()
        dist.destroy_process_group()


def _work(context: RankContext, num_bytes: int, draws_s: Sequence[float]) -> None:
    """Compute, push and pull until the server ends the training."""
    import torch
    import torch.distributed as dist

    gradient, parameters = torch.zeros(num_bytes // ITEM_BYTES), torch.zeros(num_bytes // ITEM_BYTES)
    server = context.num_ranks - 1
    for compute_s in draws_s:
        time.sleep(compute_s)
        dist.send(gradient, server)
        dist.recv(parameters, server)
        if parameters[0].item() == _OVER:
            return
    raise RuntimeError(f"worker {context.rank} has no compute time for iteration {len(draws_s)}")


def _serve(state: ServerState, num_bytes: int) -> Log:
    """Serve every worker in a thread until all have received the end of the training."""
    import torch

    parameters = torch.ones(num_bytes // ITEM_BYTES)
    failures: list[BaseException] = []

    def answer_or_fail(worker: int) -> None:
        try:
            _answer(state, worker, parameters)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=answer_or_fail, args=(worker,)) for worker in range(state.num_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return state.log


def _answer(state: ServerState, worker: int, parameters: Any) -> None:
    """Receive a worker's gradients one by one; apply each, wait until it may continue, and send the parameters."""
    import torch
    import torch.distributed as dist

    gradient = torch.zeros_like(parameters)
    over = torch.full_like(parameters, _OVER)
    while True:
        dist.recv(gradient, worker)
        with state.changed:
            if not state.is_over and state.apply(worker):
                parameters.add_(gradient, alpha=-_LEARNING_RATE)
                state.changed.notify_all()
            state.changed.wait_for(lambda: state.is_over or state.may_go_on(worker))
            state.read[worker] = state.version
            is_over = state.is_over
        dist.send(over if is_over else parameters, worker)
        if is_over:
            return
