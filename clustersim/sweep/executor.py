"""Where the work of a sweep is done: in this process, in several, or on a cluster. The results are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Does work on items; used in a `with` block, at whose end its workers are gone."""

    @property
    def num_workers(self) -> int:
        """The number of items that are in work at the same time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def results(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, as they are done.

        Items are taken as workers become free, so that few are in memory. The work must be a function of a module, and
        items and results can be pickled.
        """


class InProcess:
    """Does the work in this process, one item after the other."""

    num_workers = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def results(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, in the order of the items."""
        for number, item in enumerate(items):
            yield number, work(item)
