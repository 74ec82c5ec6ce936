"""Processes on the hosts of a cluster: one per rank, with a common clock and a barrier without network traffic."""

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
"""A function of a `RankContext` and the arguments of `run_ranks`; its result is sent back."""


class RankContext:
    """The rank of a process of the lab, the number of ranks, their addresses, and their barrier."""

    def __init__(self, rank: int, num_ranks: int, barrier: Barrier, addresses: Sequence[str]):
        self.rank, self.num_ranks, self.addresses = rank, num_ranks, addresses
        self._barrier = barrier

    def barrier(self) -> float:
        """Wait for all ranks; return the time."""
        self._barrier.wait()
        return time.monotonic()


def run_ranks(
    cluster: Cluster, work: Work, *arguments: Any, num_ranks: int | None = None, limit_s: float = 300.0
) -> list[Any]:
    """Run `work` in a process on each of the first hosts of a cluster, and return the results [num_ranks].

    If a rank fails or does not end within `limit_s`, all ranks are stopped, and a `RuntimeError` names it.
    """
    count = cluster.layout.num_hosts if num_ranks is None else num_ranks
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    addresses = [cluster.address(host) for host in range(count)]
    processes, pipes = [], []
    for rank in range(count):
        ours, theirs = context.Pipe(duplex=False)
        rank_context = RankContext(rank, count, barrier, addresses)
        process = context.Process(
            target=_begin, args=(cluster.hosts[rank], rank_context, theirs, work, arguments), daemon=True
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
    """Return the results of all ranks, in order; raise an error for the first failed rank."""
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
                raise RuntimeError(f"rank {rank} ended without a result") from None
            if not succeeded:
                raise RuntimeError(f"rank {rank}: {value}")
            results[rank] = value
    return [results[rank] for rank in range(len(pipes))]


def _begin(space: str, context: RankContext, pipe: Connection, work: Work, arguments: Sequence[Any]) -> None:
    """Enter the host's namespace, run `work`, send the result, and exit without the parent's cleanup."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        join(space)
        _raise_priority()
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        pipe.send((True, work(context, *arguments)))
    except threading.BrokenBarrierError:
        pipe.send((False, "another rank has failed"))
    except BaseException:
        context._barrier.abort()
        pipe.send((False, traceback.format_exc()))
    finally:
        pipe.close()
        os._exit(0)


def _raise_priority() -> None:
    """Use a real-time priority if permitted: ranks sleep or wait nearly all of the time."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
