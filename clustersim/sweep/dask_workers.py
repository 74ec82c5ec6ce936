"""Workers of a Dask cluster: of this machine, of a scheduler that runs, or of SLURM jobs.

Only this module knows Dask, and it is imported when such workers are asked for.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.deploy.cluster import Cluster

from clustersim.errors import ClustersimError, ExecutorError, InputError
from clustersim.sweep.batch import Done, Packed, WorkerVersions, do_batch, unpacked
from clustersim.sweep.dispatch import Lost, dispatch
from clustersim.sweep.pool import children, end_children, num_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOOK_S = 1.0
"""Time between two looks at the workers and the connection."""

_WITHOUT_WORKERS_S = 60.0
"""Time that a scheduler may have no worker."""

_CONNECT_S = 10
_SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.scheduler.allowed-failures": 0,
}
"""Dask's settings for clusters of our own: no profiler, few looks at the event loop, no repetition of lost batches."""

_RESUME = "with a ledger, the same command goes on from here"
_VERSIONS = (
    "(__import__('clustersim').__version__, '%d.%d' % __import__('sys').version_info[:2], "
    "__import__('numpy').__version__)"
)
"""What a worker evaluates to say its versions: it may have a clustersim without the functions of this one."""


class DaskWorkers:
    """An executor whose workers are those of a Dask scheduler.

    `scheduler` is its address, or what to call the cluster that `open_cluster` starts, which ends with the `with`
    block. With `waits`, there may be no worker for any time, as when jobs are queued.
    """

    def __init__(self, scheduler: str, open_cluster: Callable[[], Cluster] | None = None, waits: bool = False):
        self._scheduler, self._open_cluster, self._waits = scheduler, open_cluster, waits
        self._prefix = f"clustersim-{uuid.uuid4().hex}"
        self._cluster: Cluster | None = None
        self._client: Client | None = None
        self._others = children()
        self._is_done: SimpleQueue[Future] = SimpleQueue()
        self._tickets: dict[Future, int] = {}
        self._num_workers, self._looked_s, self._seen_s = 0, -_LOOK_S, monotonic()

    def __enter__(self) -> Self:
        self._others = children()
        _say_less()
        try:
            self._connect()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._cluster is not None:  # what its workers still do is not wanted
            end_children(self._others)
        for each in (self._client, self._cluster):
            if each is not None:
                with suppress(Exception):
                    each.close(timeout=1 if error is not None else _CONNECT_S)
        self._client = self._cluster = None

    @property
    def num_workers(self) -> int:
        """The number of worker processes that the scheduler has now."""
        if monotonic() - self._looked_s > _LOOK_S:
            self._look()
        return self._num_workers

    def results(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_lost: Callable[[Item, str], Result] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index of each item with its result, as they are done; see `Executor`."""
        yield from dispatch(self, work, items, on_lost)

    def submit(self, ticket: int, batch: Packed) -> None:
        """Send a batch to the scheduler."""
        future = self._open().submit(do_batch, *batch, key=f"{self._prefix}-{ticket}", pure=False)
        self._tickets[future] = ticket
        future.add_done_callback(self._is_done.put)

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        """Wait until a batch is finished; yield the tickets of all that are, and release them at the scheduler."""
        future = self._next_done()
        while future is not None:
            ticket = self._tickets.pop(future)
            yield ticket, self._outcome(future)
            future.release()
            future = None if self._is_done.empty() else self._is_done.get()

    def _next_done(self) -> Future:
        while True:
            try:
                return self._is_done.get(timeout=_LOOK_S)
            except Empty:
                self._look()

    def _outcome(self, future: Future) -> Done | Lost:
        """Return what became of a batch; its result may be lost with its worker, and is then made again."""
        while True:
            try:
                done: Done = unpacked(future.result(timeout=_LOOK_S))
                return done
            except KilledWorker as error:
                return Lost("its workers were killed, or ended by themselves", error.allowed_failures + 1)
            except ClustersimError:
                raise
            except TimeoutError:
                self._look()
            except Exception as error:
                if future.status in ("cancelled", "lost") or isinstance(error, OSError):
                    raise self._gone() from error
                message = f"a worker of {self._scheduler} cannot do the work ({type(error).__name__}: {error})"
                raise ExecutorError(message) from error

    def _gone(self) -> ExecutorError:
        return ExecutorError(f"the scheduler of {self._scheduler} is gone; {_RESUME}")

    def _open(self) -> Client:
        assert self._client is not None, "workers are used in a `with` block"
        return self._client

    def _connect(self) -> None:
        try:
            if self._open_cluster is not None:
                with dask.config.set(_SETTINGS):
                    self._cluster = self._open_cluster()
            self._client = Client(self._cluster or self._scheduler, timeout=_CONNECT_S, set_as_default=False)
        except ClustersimError:
            raise
        except (OSError, RuntimeError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ExecutorError(f"{self._scheduler} cannot be reached: {reason}") from error
        self._seen_s = monotonic()
        while self.num_workers == 0:
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=_LOOK_S)
        self._check_versions()

    def _look(self) -> None:
        """Count the workers; raise ExecutorError if they or the scheduler are gone."""
        client = self._open()
        if client.status != "running":
            raise self._gone()
        try:
            self._num_workers = len(client.nthreads())
        except (OSError, TimeoutError) as error:
            raise self._gone() from error
        self._looked_s = monotonic()
        if self._num_workers:
            self._seen_s = self._looked_s
        elif not self._waits and self._looked_s - self._seen_s > _WITHOUT_WORKERS_S:
            raise ExecutorError(f"{self._scheduler} has had no worker for {_WITHOUT_WORKERS_S:.0f} s; {_RESUME}")

    def _check_versions(self) -> None:
        """Raise InputError if a worker has another clustersim, Python or numpy than this process."""
        here = WorkerVersions.here()
        for worker, found in self._open().run(eval, _VERSIONS, on_error="return").items():
            if isinstance(found, Exception):
                message = f"the worker {worker} cannot load clustersim and numpy ({type(found).__name__}: {found})"
                raise InputError(message, got=str(found), allowed=", ".join(here))
            here.check(found, worker)


def local_cluster(workers: int) -> Callable[[], Cluster]:
    """Return what starts a cluster of single-threaded worker processes of this machine."""
    return lambda: LocalCluster(
        n_workers=workers or num_cores(),
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
    )


def slurm_cluster(workers: int, options: Mapping[str, str]) -> Callable[[], Cluster]:
    """Return what submits SLURM jobs that are workers; a job has one of one core, if neither options nor Dask's own
    settings (`jobqueue.slurm`) say otherwise."""
    if workers < 1:
        message = "slurm needs the number of workers, which may be in several jobs (--workers 8)"
        raise InputError(message, key="workers", got=str(workers), allowed="a whole number of at least 1")

    def open_cluster() -> Cluster:
        from dask_jobqueue import SLURMCluster

        given = {key.replace("-", "_"): _value(text) for key, text in options.items()}
        given.setdefault("scheduler_options", {"dashboard_address": ":0"})
        usual = {"cores": 1, "processes": 1, "memory": "2 GiB"}
        for key, value in usual.items():
            if dask.config.get(f"jobqueue.slurm.{key}", None) is None:
                given.setdefault(key, value)
        try:
            cluster = SLURMCluster(**given)
        except (TypeError, ValueError) as error:
            raise InputError(f"SLURMCluster does not take these options: {error}", got=str(dict(options))) from error
        cluster.scale(n=workers)
        return cluster

    return open_cluster


def _value(text: str) -> Any:
    """Return the value of an option as YAML; a time such as 01:00:00 is a text."""
    from ruamel.yaml import YAML

    return text if re.fullmatch(r"[\d:-]*:[\d:]*", text) else YAML(typ="safe").load(text)


def _say_less() -> None:
    """Leave out what Dask logs of workers that end: a sweep goes on, or says why it does not."""
    for name in ("distributed", "distributed.nanny", "distributed.scheduler", "distributed.client", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
