"""A real parameter server: workers sleep and send gradients with torch, and the server applies them and answers."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from validate.lab.collectives import ITEM_BYTES, begin_group
from validate.lab.models import Model
from validate.lab.ranks import RankContext

_GOES_ON, _OVER = 1.0, -1.0
"""The first number of the server's messages, before the weights: whether the training goes on."""


@dataclass(frozen=True)
class Mode:
    """How a server handles gradients: `kind` is server, backup, async, softsync or bounded-staleness, as in a scenario.

    `n` is softsync's: the number of updates in the time in which every worker pushes one gradient.
    """

    kind: str
    backups: int = 0
    bound: int = 0
    n: int = 1

    def gradients_per_update(self, num_workers: int) -> int:
        """Return the number of gradients that an update has.

        >>> Mode("backup", backups=1).gradients_per_update(4), Mode("softsync", n=2).gradients_per_update(4)
        (3, 2)
        """
        if self.kind in ("server", "backup"):
            return num_workers - self.backups
        return num_workers // self.n if self.kind == "softsync" else 1

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of the same strategy in a scenario."""
        own = {
            "backup": {"backups": self.backups},
            "softsync": {"n": self.n},
            "bounded-staleness": {"bound": self.bound, "steady": False},
        }
        words = {"kind": self.kind, **own.get(self.kind, {})}
        return {**words, "overlap": False, "buckets": "whole", "servers": {"on": "own-hosts"}}


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
    """Every `per_update` gradients make a version; no worker is more than `bound` iterations ahead of the slowest."""

    def __init__(self, num_workers: int, num_updates: int, bound: int | None, per_update: int = 1):
        super().__init__(num_workers, num_updates)
        self._bound, self._per_update = bound, per_update
        self._num_pending = 0
        self._clocks = [0] * num_workers

    def apply(self, worker: int) -> bool:
        self.note(worker, self.version + 1, accepted=True)
        self._num_pending += 1
        if self._num_pending == self._per_update:
            self.version, self._num_pending = self.version + 1, 0
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
    bound = mode.bound if mode.kind == "bounded-staleness" else None
    return AsynchronousServer(num_workers, num_updates, bound, mode.gradients_per_update(num_workers))


class Served(NamedTuple):
    """What a server has after a training: when it began, its log, and the weights that its model has kept."""

    begin_s: float
    log: Log
    kept: Mapping[int, np.ndarray]


def serve_and_work(
    context: RankContext,
    store: str,
    mode: Mode,
    make_model: Callable[[], Model],
    draws_s: Sequence[Sequence[float]],
    num_updates: int,
) -> Served | None:
    """Train for `num_updates` updates; return what the server has, which is the last rank, else None.

    `draws_s` [num_workers][num_iterations] are the compute times of each worker.
    """
    import torch.distributed as dist

    model = make_model()
    begin_group(context, store)
    try:
        begin_s = context.barrier()
        if context.rank == context.num_ranks - 1:
            log = _serve(server_state(mode, context.num_ranks - 1, num_updates), model)
            return Served(begin_s, log, model.kept)
        _work(context, model, draws_s[context.rank])
        return None
    finally:
        context.barrier()
        dist.destroy_process_group()


def message_bytes(num_weights: int) -> int:
    """Return the bytes of a message with so many weights, or their gradient."""
    return ITEM_BYTES * (1 + num_weights)


def _work(context: RankContext, model: Model, draws_s: Sequence[float]) -> None:
    """Compute, push and pull until the server ends the training; computing takes `draws_s`, or longer if it has to."""
    import torch
    import torch.distributed as dist

    gradient, parameters = torch.zeros(1 + len(model.weights)), torch.zeros(1 + len(model.weights))
    parameters[1:] = model.weights
    server = context.num_ranks - 1
    for compute_s in draws_s:
        end_s = time.monotonic() + compute_s
        gradient[1:] = model.gradient(context.rank, parameters[1:])
        time.sleep(max(0.0, end_s - time.monotonic()))
        dist.send(gradient, server)
        dist.recv(parameters, server)
        if parameters[0].item() == _OVER:
            return
    raise RuntimeError(f"worker {context.rank} has no compute time for iteration {len(draws_s)}")


def _serve(state: ServerState, model: Model) -> Log:
    """Serve every worker in a thread until all have received the end of the training."""
    failures: list[BaseException] = []
    pending: list[Any] = []

    def answer_or_fail(worker: int) -> None:
        try:
            _answer(state, worker, model, pending)
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


def _answer(state: ServerState, worker: int, model: Model, pending: list[Any]) -> None:
    """Receive a worker's gradients one by one; take each, wait until it may continue, and send the parameters.

    `pending` are the gradients of all workers for the next update; like the model it is changed under the state's lock.
    """
    import torch
    import torch.distributed as dist

    received, sent = torch.zeros(1 + len(model.weights)), torch.zeros(1 + len(model.weights))
    while True:
        dist.recv(received, worker)
        with state.changed:
            _take(state, worker, model, pending, received[1:])
            state.changed.wait_for(lambda: state.is_over or state.may_go_on(worker))
            state.read[worker] = state.version
            is_over = state.is_over
            sent[0], sent[1:] = _OVER if is_over else _GOES_ON, model.weights
        dist.send(sent, worker)
        if is_over:
            return


def _take(state: ServerState, worker: int, model: Model, pending: list[Any], gradient: Any) -> None:
    """Use a gradient or drop it; update the model if an update is complete."""
    before = state.version
    if state.is_over or not state.apply(worker):
        return
    pending.append(gradient.clone())
    if state.version > before:
        model.update(pending)
        pending.clear()
    state.changed.notify_all()
