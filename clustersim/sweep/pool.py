"""Process pool whose results do not depend on the number of processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from clustersim.errors import ExecutorError
from clustersim.sweep.batch import Done, Packed, do_batch, unpacked
from clustersim.sweep.dispatch import Lost, dispatch

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.process import BaseProcess

_MOST_STARTS = 3
"""Processes that may end before they are ready, one after the other."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProcessPool:
    """Worker processes that start when first needed and end with the `with` block.

    `workers` is the maximum number, 0 for one per core. With one, the work is done in this process. The work must be a
    function of a module, and its items must be picklable. A process that ends is started anew.

    >>> with ProcessPool(1) as pool:
    ...     pool.map(abs, [-2, 1])
    [2, 1]
    """

    def __init__(self, workers: int = 0):
        self._most = workers or num_cores()
        self._processes: list[_Process] = []
        self._others: set[BaseProcess] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):  # stopped: what workers still do is not wanted
            end_children(self._others)
        for process in self._processes:
            process.shutdown(wait=False)
        for process in self._processes:
            process.shutdown(wait=True)

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        on_done: Callable[[int, int], None] = lambda number, num_done: None,
        order: Sequence[int] | None = None,
        on_result: Callable[[int, Result], None] = lambda number, result: None,
    ) -> list[Result]:
        """Return the result of each item, in the order of the items.

        `on_result` takes the index of a finished item and its result, `on_done` then the index and the number of
        finished ones. `order` has the indices of the items in the order of their start: the longest first, so that the
        last ones are short.
        """
        if min(self._most, len(items)) <= 1:
            results = []
            for number, item in enumerate(items):
                results.append(work(item))
                on_result(number, results[-1])
                on_done(number, number + 1)
            return results
        numbers = list(order or range(len(items)))
        found: dict[int, Result] = {}
        for num_done, (place, result) in enumerate(self.results(work, (items[each] for each in numbers)), start=1):
            number = numbers[place]
            found[number] = result
            on_result(number, result)
            on_done(number, num_done)
        return [found[number] for number in range(len(items))]

    @property
    def num_workers(self) -> int:
        """The number of processes."""
        return self._most

    def results(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_lost: Callable[[Item, str], Result] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, as they are done; see `Executor`."""
        if self._most <= 1:
            yield from ((number, work(item)) for number, item in enumerate(items))
            return
        yield from dispatch(self, work, items, on_lost)

    def submit(self, ticket: int, batch: Packed) -> None:
        """Send a batch to the process that has the fewest, to a new one if all are busy and there may be more."""
        if not self._processes:
            self._others = children()
        process = min(self._processes, key=lambda each: len(each.waiting), default=None)
        if process is None or (process.waiting and len(self._processes) < self._most):
            process = _Process()
            self._processes.append(process)
        process.submit(ticket, batch)

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        """Wait until a batch is finished; yield the tickets of all that are."""
        from concurrent.futures import FIRST_COMPLETED, wait

        wait([future for each in self._processes for future in each.waiting], return_when=FIRST_COMPLETED)
        for process in self._processes:
            yield from process.finished()


class _Process:
    """One worker process, and its batches in the order in which they are done.

    It is a pool of its own, so that its end concerns no batch of another process, and the first batch that is not
    finished is known to be the one in work.
    """

    def __init__(self) -> None:
        self.waiting: dict[Future[bytes], tuple[int, Packed]] = {}
        self._failed_starts = 0
        self._start()

    def _start(self) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        self._executor: ProcessPoolExecutor = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin
        )
        self._ready = self._executor.submit(os.getpid)

    def submit(self, ticket: int, batch: Packed) -> None:
        """Send a batch to the process, which is started anew if it ended meanwhile."""
        from concurrent.futures import BrokenExecutor

        try:
            future = self._executor.submit(do_batch, *batch)
        except BrokenExecutor:
            self._start()
            future = self._executor.submit(do_batch, *batch)
        self.waiting[future] = ticket, batch

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        """Yield the finished batches; if the process ended, the one that was in work is lost."""
        from concurrent.futures import BrokenExecutor

        while self.waiting and (future := next(iter(self.waiting))).done():
            if isinstance(error := future.exception(), BrokenExecutor):
                yield from self._ended(error)
                return
            self._failed_starts = 0
            ticket, _ = self.waiting.pop(future)
            yield ticket, unpacked(future.result())

    def _ended(self, error: BaseException) -> Iterator[tuple[int, Done | Lost]]:
        """Start the process anew, and send the batches that were not in work."""
        again = list(self.waiting.values())
        self.waiting.clear()
        lost = again.pop(0)[0] if self._ready.exception() is None else None
        if lost is None:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_STARTS:
                raise ExecutorError(f"{_MOST_STARTS} worker processes in a row could not start") from error
        self._executor.shutdown(wait=False)
        self._start()
        for ticket, batch in again:
            self.submit(ticket, batch)
        if lost is not None:
            yield lost, Lost("its process was killed, or ended by itself")

    def shutdown(self, wait: bool) -> None:
        """End the process when it has finished the batch that is in work."""
        self._executor.shutdown(wait=wait, cancel_futures=True)


def children() -> set[BaseProcess]:
    """Return the processes that this one has started."""
    from multiprocessing import active_children

    return set(active_children())


def end_children(others: Collection[BaseProcess]) -> None:
    """End all processes that this one has started, but for others, at once."""
    _end(children() - set(others))


def _end(workers: Collection[BaseProcess]) -> None:
    """End processes at once."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def _begin() -> None:
    """Initialize a worker process."""
    _end_with_parent()
    from clustersim.garbage_collection import collect_rarely

    collect_rarely()


def _end_with_parent() -> None:
    """End a worker silently when the command has ended, which ends its workers itself when it is interrupted."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = parent_process()
    assert command is not None, "a worker is started by the command"

    def watch() -> None:
        wait([command.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def num_cores() -> int:
    """Return the number of cores that this process may use; all cores where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
