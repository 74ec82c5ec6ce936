"""A batch of items that a worker does together, so that sending them costs little of the time of small ones."""

from __future__ import annotations

import contextlib
import os
import pickle  # nosec B403
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import perf_counter
from traceback import format_exc
from typing import Any, NamedTuple, Self

from clustersim import __version__
from clustersim.errors import InputError, NotInstalledError
from clustersim.garbage_collection import rare_collections

BATCH_S = 0.5
"""Time that a batch shall take. A worker gives back what it has not begun after twice that time."""

_ONE_AT_A_TIME = Lock()
"""A process does one batch at a time, however many threads it has."""


class WorkerVersions(NamedTuple):
    """Versions of a worker that results depend on."""

    clustersim: str
    python: str
    numpy: str

    @classmethod
    def here(cls) -> Self:
        """Return the versions of this process."""
        import numpy as np

        return cls(__version__, f"{sys.version_info.major}.{sys.version_info.minor}", np.__version__)

    def check(self, found: Sequence[str], worker: str) -> None:
        """Raise InputError if a worker has other versions than these."""
        wrong = [
            f"{name} {there or 'not at all'} (here {here})"
            for name, here, there in zip(self._fields, self, found, strict=True)
            if there != here
        ]
        if wrong:
            message = (
                f"the worker {worker} has {', '.join(wrong)}; its results could differ: "
                "start it with the versions of this process"
            )
            raise InputError(message, got=", ".join(wrong), allowed=", ".join(self))


@dataclass(frozen=True)
class Done:
    """Results of the first items of a batch, in their order, and the seconds of their work.

    `error` was raised by the item after them.
    """

    results: Sequence[Any]
    seconds: float
    error: Exception | None = None


class Packed(NamedTuple):
    """A batch as it is sent: the sender's versions and working directory, and the work with its items, pickled."""

    versions: tuple[str, ...]
    folder: str
    content: bytes

    @classmethod
    def of(cls, work: Callable[[Any], Any], items: Sequence[Any]) -> Self:
        """Return the batch of some items. What they share is in it once."""
        return cls(tuple(WorkerVersions.here()), os.getcwd(), pickle.dumps((work, items), protocol=5))


def do_batch(versions: tuple[str, ...], folder: str, content: bytes) -> bytes:
    """Do the work on the items of a batch in a worker; return the pickled `Done`."""
    WorkerVersions(*versions).check(WorkerVersions.here(), _worker())
    with _ONE_AT_A_TIME, _working_in(folder), rare_collections():
        work, items = unpacked(content)
        done = _done(work, items)
    return pickle.dumps(done, protocol=5)


def _worker() -> str:
    return f"{platform.node()} (process {os.getpid()})"


def unpacked(content: bytes) -> Any:
    """Return what this command and its workers send to each other.

    They send it over the channels of `multiprocessing`, Dask and MPI, which unpickle what comes over them too. A
    program that can write to these can run code anyhow (docs/security.md).
    """
    return pickle.loads(content)  # nosec B301


def _done(work: Callable[[Any], Any], items: Sequence[Any]) -> Done:
    results: list[Any] = []
    begin_s = perf_counter()
    for item in items:
        try:
            results.append(work(item))
        except NotInstalledError as error:
            message = f"the worker {_worker()} cannot train: {error}"
            return Done(results, perf_counter() - begin_s, NotInstalledError(message, got="not installed"))
        except Exception as error:
            error.add_note(f"In a worker:\n{format_exc()}")
            return Done(results, perf_counter() - begin_s, error)
        if perf_counter() - begin_s > 2 * BATCH_S:
            break
    return Done(results, perf_counter() - begin_s)


@contextlib.contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Work in the sender's directory, to which paths in items are relative, if this machine has it."""
    if Path(folder).is_dir() and folder != os.getcwd():
        with contextlib.chdir(folder):
            yield
    else:
        yield
