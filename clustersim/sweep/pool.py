"""Process pool whose results do not depend on the number of processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.process import BaseProcess

_AHEAD = 3
"""Items that are sent per process: one in work, and others that wait for it."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProcessPool:
    """Worker processes that start when first needed and end with the `with` block.

    `workers` is the maximum number, 0 for one per core. With one, the work is done in this process. The work must be a
    function of a module, and its items must be picklable.

    >>> with ProcessPool(1) as pool:
    ...     pool.map(abs, [-2, 1])
    [2, 1]
    """

    def __init__(self, workers: int = 0):
        self._most = workers or num_cores()
        self._executor: ProcessPoolExecutor | None = None
        self._others: set[BaseProcess] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            if error is not None and not isinstance(error, Exception):  # stopped: what workers still do is not wanted
                from multiprocessing import active_children

                _end(set(active_children()) - self._others)
            self._executor.shutdown(wait=True, cancel_futures=True)

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

    def results(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, as they are done; see `Executor`."""
        if self._most <= 1:
            yield from ((number, work(item)) for number, item in enumerate(items))
            return
        from concurrent.futures import FIRST_COMPLETED, Future, wait

        executor, waiting = self._started(), enumerate(items)
        running: dict[Future[Result], int] = {}
        for number, item in islice(waiting, _AHEAD * self._most):
            running[executor.submit(work, item)] = number
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done = running.pop(future)
                for number, item in islice(waiting, 1):
                    running[executor.submit(work, item)] = number
                yield done, future.result()

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import active_children, get_context

            self._others = set(active_children())
            self._executor = ProcessPoolExecutor(self._most, mp_context=get_context("spawn"), initializer=_begin)
        return self._executor


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
