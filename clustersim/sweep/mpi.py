"""Workers that are processes of an MPI job: `mpiexec -n 4 python -m mpi4py.futures -m clustersim sweep ... --on mpi`.

Only this module knows mpi4py, and it is imported when such workers are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import TracebackType
from typing import Self, TypeVar

from mpi4py.futures import MPIPoolExecutor, _core

from clustersim.errors import InputError
from clustersim.sweep.batch import Done, Packed, do_batch, unpacked
from clustersim.sweep.dispatch import Lost, dispatch

Item = TypeVar("Item")
Result = TypeVar("Result")


class MpiPool:
    """Workers that are the processes of the MPI job, but the first. If one ends, MPI ends the job."""

    def __init__(self) -> None:
        if getattr(_core, "SharedPool", None) is None:
            message = "mpi has no workers here: start `mpiexec -n 4 python -m mpi4py.futures -m clustersim ...`"
            raise InputError(message, got="a process without workers")
        self._executor = MPIPoolExecutor()
        self._tickets: dict[Future[bytes], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=error is None, cancel_futures=True)

    @property
    def num_workers(self) -> int:
        """The number of processes, without this one."""
        return int(self._executor.num_workers)

    def results(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_lost: Callable[[Item, str], Result] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, as they are done; see `Executor`."""
        yield from dispatch(self, work, items, on_lost)

    def submit(self, ticket: int, batch: Packed) -> None:
        """Send a batch to a process."""
        self._tickets[self._executor.submit(do_batch, *batch)] = ticket

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        """Wait until a batch is finished; yield the tickets of all that are."""
        for future in wait(self._tickets, return_when=FIRST_COMPLETED).done:
            yield self._tickets.pop(future), unpacked(future.result())
