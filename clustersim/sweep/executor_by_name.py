"""Executors by the name that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from clustersim.errors import InputError, nearest
from clustersim.sweep.executor import Executor, InProcess
from clustersim.sweep.pool import ProcessPool

EXECUTORS = {
    "processes": "processes of this machine",
    "in-process": "this process, one point after the other",
    "dask": "a Dask cluster of this machine: worker processes with one thread",
    "slurm": "a Dask cluster whose workers are SLURM jobs",
    "mpi": "the other processes of `mpiexec -n N python -m mpi4py.futures -m clustersim ...`",
    "tcp://HOST:PORT": "a Dask scheduler that runs, also tls://",
}
"""What the points of a sweep are simulated on."""

_ADDRESSES = ("tcp://", "tls://")
_NEEDS = {
    "dask": (("distributed",), "distributed"),
    "slurm": (("distributed", "dask_jobqueue"), "distributed"),
    "mpi": (("mpi4py",), "mpi"),
}
"""Modules that an executor needs, and the extra with them."""


def open_executor(on: str = "processes", workers: int = 0, options: Mapping[str, str] | None = None) -> Executor:
    """Return an executor, one of `EXECUTORS`; it connects and starts its workers in its `with` block.

    `workers` is the number of workers, 0 for one per core; a scheduler that runs and MPI have theirs. `options` are
    arguments of dask-jobqueue's `SLURMCluster`, such as `queue`, `account` and `walltime`. Raise InputError for an
    unknown name, an extra that is not installed, and options that the executor does not take.
    """
    kind = "dask" if on.startswith(_ADDRESSES) else on
    if kind not in EXECUTORS:
        near = nearest(on, list(EXECUTORS))
        hint = f"; did you mean '{near}'?" if near else ""
        known = ", ".join(EXECUTORS)
        raise InputError(f"points cannot be simulated on '{on}'{hint} (known: {known})", got=on, allowed=known)
    if options and kind != "slurm":
        raise InputError(f"'{on}' takes no options; slurm does", got=", ".join(options), allowed="no options")
    _check_installed(kind, on)
    if kind == "in-process":
        return InProcess()
    if kind == "processes":
        return ProcessPool(workers)
    if kind == "mpi":
        from clustersim.sweep.mpi import MpiPool

        return MpiPool()
    from clustersim.sweep.dask_workers import DaskWorkers, local_cluster, slurm_cluster

    if kind == "slurm":
        return DaskWorkers("the SLURM cluster", slurm_cluster(workers, options or {}), waits=True)
    return DaskWorkers(on) if on != "dask" else DaskWorkers("the local Dask cluster", local_cluster(workers))


def _check_installed(kind: str, on: str) -> None:
    modules, extra = _NEEDS.get(kind, ((), ""))
    missing = [module.replace("_", "-") for module in modules if find_spec(module) is None]
    if missing:
        message = f"'{on}' needs {' and '.join(missing)}, which is not installed: pip install 'clustersim[{extra}]'"
        raise InputError(message, got=f"no {missing[0]}", allowed=f"the extra {extra}")
