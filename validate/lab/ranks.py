"""Processes on the hosts of a cluster: one a rank, all on one clock, with a barrier that uses no network."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Barrier
from typing import Any

from validate.lab.cluster import Cluster, join

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

Work = Callable[..., Any]
"""Takes a `Place` and what else `run_ranks` is given; what it returns is sent back."""


class Place:
    """Where a process of the lab is: its rank among how many, and the barrier they share."""

    def __init__(self, rank: int, num_ranks: int, barrier: Barrier, addresses: Sequence[str]):
        self.rank, self.num_ranks, self.addresses = rank, num_ranks, addresses
        self._barrier = barrier

    def meet(self) -> float:
        """Wait until all ranks are here; return the time."""
        self._barrier.wait()
        return time.monotonic()


def run_ranks(
    cluster: Cluster, work: Work, *arguments: Any, num_ranks: int | None = None, limit_s: float = 300.0
) -> list[Any]:
    """Run `work` on the first hosts of a cluster, a process each, and return what each of them returns [num_ranks].

    A rank that fails or does not end within `limit_s` ends all of them, and is told as a `RuntimeError`.
    """
    count = cluster.layout.num_hosts if num_ranks is None else num_ranks
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    addresses = [cluster.address(host) for host in range(count)]
    processes, pipes = [], []
    for rank in range(count):
        ours, theirs = context.Pipe(duplex=False)
        place = Place(rank, count, barrier, addresses)
        process = context.Process(
            target=_begin, args=(cluster.hosts[rank], place, theirs, work, arguments), daemon=True
        )
        process.start()
        theirs.close()
        processes.append(process)
        pipes.append(ours)
    try:
        return _results(pipes, time.monotonic() + limit_s)
    finally:
        for process in processes:
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()


def _results(pipes: Sequence[Connection], until_s: float) -> list[Any]:
    """Return what every rank sends back, in order; the first one that fails ends the waiting."""
    results: dict[int, Any] = {}
    while len(results) < len(pipes):
        waiting = {pipe: rank for rank, pipe in enumerate(pipes) if rank not in results}
        ready = wait(list(waiting), max(0.0, until_s - time.monotonic()))
        if not ready:
            raise RuntimeError(f"rank {min(waiting.values())} has not ended in time")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting[pipe]
            try:
                succeeded, value = pipe.recv()
            except EOFError:
                raise RuntimeError(f"rank {rank} ended without a word") from None
            if not succeeded:
                raise RuntimeError(f"rank {rank}: {value}")
            results[rank] = value
    return [results[rank] for rank in range(len(pipes))]


def _begin(space: str, place: Place, pipe: Connection, work: Work, arguments: Sequence[Any]) -> None:
    """Enter the host's namespace, work, and hand the result back; whatever happens, leave without cleaning up twice."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        join(space)
        _go_first()
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        pipe.send((True, work(place, *arguments)))
    except threading.BrokenBarrierError:
        pipe.send((False, "another rank has failed"))
    except BaseException:
        place._barrier.abort()
        pipe.send((False, traceback.format_exc()))
    finally:
        pipe.close()
        os._exit(0)


def _go_first() -> None:
    """Run before ordinary processes where that is allowed: ranks sleep or wait nearly all of the time."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
