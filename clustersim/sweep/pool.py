"""Work done side by side in processes of its own: what comes out is the same however many there are."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Pool:
    """Processes that are started when they are first needed, and end with the `with` block.

    `workers` is how many there are at most, as many as there are cores where it is 0. With one, the work is done in
    this process. What they are asked must be a function of a module, and it and its items must pickle.

    >>> with Pool(1) as pool:
    ...     pool.map(abs, [-2, 1])
    [2, 1]
    """

    def __init__(self, workers: int = 0):
        self._most = workers or num_cores()
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=error is None, cancel_futures=True)

    def map(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[Item],
        done: Callable[[int, int], None] = lambda number, how_many: None,
        order: Sequence[int] | None = None,
    ) -> list[Answer]:
        """Return the answer to each item, in their order whoever is done first.

        `done` is told the number of an item that is done and how many are; `order` has the numbers of the items in the
        order in which they are begun: the longest first, so that nothing long is left to the end.
        """
        if min(self._most, len(items)) <= 1:
            answers = []
            for number, item in enumerate(items):
                answers.append(work(item))
                done(number, number + 1)
            return answers
        from concurrent.futures import as_completed

        executor = self._started()
        running = {executor.submit(work, items[number]): number for number in order or range(len(items))}
        found: dict[int, Answer] = {}
        for how_many, future in enumerate(as_completed(running), start=1):
            number = running[future]
            found[number] = future.result()
            done(number, how_many)
        return [found[number] for number in range(len(items))]

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._executor = ProcessPoolExecutor(self._most, mp_context=get_context("spawn"), initializer=_begin)
        return self._executor


def _begin() -> None:
    """Make ready a worker, which does nothing but simulate."""
    _end_with_us()
    from clustersim.simulate.garbage_collection import collect_rarely

    collect_rarely()


def _end_with_us() -> None:
    """Let a worker end without a word when somebody stops the command, or as soon as the command has gone."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = parent_process()
    assert command is not None, "a worker is started by the command"

    def watch() -> None:
        wait([command.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def num_cores() -> int:
    """Return how many cores this process may use; systems that do not say have all of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
