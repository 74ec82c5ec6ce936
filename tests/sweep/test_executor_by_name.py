"""Executors by name; what is not installed or not known is refused at once."""

from __future__ import annotations

import importlib.util
import time
from importlib import import_module

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.sweep import open_executor
from clustersim.sweep.executor import InProcess
from clustersim.sweep.pool import ProcessPool
from tests.sweep.test_sweep import SCENARIO


def test_an_executor_has_a_name() -> None:
    assert isinstance(open_executor(), ProcessPool)
    assert open_executor("processes", 3).num_workers == 3
    assert isinstance(open_executor("in-process"), InProcess)


@pytest.mark.parametrize("on", ["processes", "in-process"])
def test_a_sweep_is_the_same_on_each(on: str) -> None:
    assert clustersim.sweep(SCENARIO, executor=on, workers=2).to_dict() == clustersim.sweep(SCENARIO).to_dict()


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'dsk'; did you mean 'dask'\? \(known: processes, in-process, dask, slurm"):
        open_executor("dsk")


def test_only_slurm_takes_options() -> None:
    with pytest.raises(InputError, match="'processes' takes no options"):
        open_executor("processes", 1, {"queue": "short"})


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("dask", "'dask' needs distributed, which is not installed: pip install 'clustersim[distributed]'"),
        ("tls://host:8786", "'tls://host:8786' needs distributed"),
        ("slurm", "'slurm' needs distributed and dask-jobqueue, which"),
        ("mpi", "'mpi' needs mpi4py, which is not installed: pip install 'clustersim[mpi]'"),
    ],
)
def test_what_is_not_installed_is_named_within_a_second(on: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("clustersim.sweep.executor_by_name")
    absent = {"distributed", "dask_jobqueue", "mpi4py"}
    monkeypatch.setattr(module, "find_spec", lambda name: None if name in absent else importlib.util.find_spec(name))
    begin_s = time.monotonic()
    with pytest.raises(InputError) as raised:
        clustersim.sweep("a-scenario-that-is-not-read-before", executor=on)
    assert message in str(raised.value)
    assert raised.value.exit_status == 3
    assert time.monotonic() - begin_s < 1
