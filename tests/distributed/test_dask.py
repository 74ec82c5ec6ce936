"""Real Dask: a scheduler and worker processes, some of which are killed; the result is that of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import ExecutorError, InputError
from clustersim.scenario import load_scenario
from clustersim.simulate import Forecast
from clustersim.sweep import open_executor
from clustersim.sweep.executor import InProcess
from clustersim.sweep.point_forecasts import point_forecasts
from clustersim.sweep.points import sweep_of
from clustersim.sweep.task import PointTask
from tests.distributed.conftest import POINTS, ROOT, DaskProcesses, text_of, until
from tests.sweep.test_pool import is_running, kill_at_two, kill_from_ten

pytestmark = pytest.mark.distributed


def test_three_workers_of_which_one_is_killed_give_what_one_process_gives(
    dask_processes: DaskProcesses, serial: str
) -> None:
    workers = [dask_processes.start_worker() for _ in range(3)]
    shares: list[float] = []

    def kill_one(share: float, point: str) -> None:
        shares.append(share)
        if share > 0.3 and workers[0].poll() is None:
            workers[0].kill()
            workers[0].wait()

    found = clustersim.sweep(POINTS, kill_one, executor=dask_processes.address)
    assert text_of(found) == serial
    assert workers[0].poll() == -signal.SIGKILL
    assert len(found.failed) == 120
    assert shares == sorted(shares)
    assert len(shares) == 600


def test_a_lost_scheduler_is_an_error_and_what_came_before_it_can_be_completed(
    dask_processes: DaskProcesses, serial: str
) -> None:
    dask_processes.start_worker()
    loaded = load_scenario(POINTS, strict=False)
    tasks = [PointTask(tree) for tree in loaded.trees()]
    found: dict[int, Forecast] = {}
    with open_executor(dask_processes.address) as executor:
        results = point_forecasts(executor, tasks)
        found.update(next(results) for _ in range(100))
        dask_processes.scheduler.kill()
        killed_s = time.monotonic()
        with pytest.raises(ExecutorError, match=r"the scheduler of tcp://.* is gone; with a ledger") as raised:
            found.update(results)
    assert raised.value.exit_status == 1
    assert time.monotonic() - killed_s < 30
    assert 100 <= len(found) < len(tasks)
    missing = [number for number in range(len(tasks)) if number not in found]
    for place, made in point_forecasts(InProcess(), [tasks[number] for number in missing]):
        found[missing[place]] = made
    assert text_of(sweep_of(loaded, [found[number] for number in range(len(tasks))])) == serial


@pytest.mark.parametrize("code", ["__version__ = '0.0.9'", "raise ImportError('broken')"])
def test_a_worker_of_another_version_is_refused_before_any_point(
    dask_processes: DaskProcesses, tmp_path: Path, code: str
) -> None:
    (other := tmp_path / "other" / "clustersim").mkdir(parents=True)
    (other / "__init__.py").write_text(code)
    dask_processes.start_worker(PYTHONPATH=str(other.parent))
    shares: list[float] = []
    with pytest.raises(InputError) as raised:
        clustersim.sweep(POINTS, lambda share, point: shares.append(share), executor=dask_processes.address)
    assert not shares
    assert raised.value.exit_status == 3
    expected = (
        "has clustersim 0.0.9 (here " if "0.0.9" in code else "cannot load clustersim and numpy (ImportError: broken)"
    )
    assert expected in str(raised.value)


def test_a_worker_of_another_version_that_comes_later_is_refused(dask_processes: DaskProcesses, tmp_path: Path) -> None:
    """It has the code, so that it can read a batch at all, and another version."""
    (site := tmp_path / "site").mkdir()
    (site / "sitecustomize.py").write_text("import clustersim\nclustersim.__version__ = '0.0.9'\n")
    dask_processes.start_worker()
    with open_executor(dask_processes.address) as executor:
        results = executor.results(time.sleep, [0.3] * 200)
        next(results)
        dask_processes.start_worker(PYTHONPATH=f"{site}:{ROOT}")
        with pytest.raises(InputError, match=r"has clustersim 0\.0\.9"):
            list(results)


def test_a_model_beside_the_scenario_is_found_by_workers_in_another_folder(
    dask_processes: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "mine").mkdir()
    monkeypatch.chdir(folder)
    layers = (
        "name: own\nlayers:\n- {name: a, op: fully-connected, flop: 1e9, parameter_bytes: 4e6, activation_bytes: 1e3}\n"
    )
    (folder / "own.yaml").write_text(layers)
    (folder / "scenario.yaml").write_text(
        "model: ./own.yaml\nnum_gpus: [1, 2, 4]\nbatch: {per_gpu: 4}\nsoftware: plain\n"
        "topology: {kind: star, num_hosts: 4, gpu: k80, link: 1 GB/s, hop: 1 us}\nstrategy: {kind: all-reduce}\n"
    )
    dask_processes.start_worker()
    found = clustersim.sweep("scenario.yaml", executor=dask_processes.address)
    assert len(found.ran) == 3
    assert text_of(found) == text_of(clustersim.sweep("scenario.yaml"))


def test_a_point_that_kills_its_workers_is_given_up() -> None:
    with open_executor("dask", workers=2) as executor:
        found = dict(executor.results(kill_at_two, range(5), lambda number, message: 100 + number))
    assert found == {0: 0, 1: -1, 2: 102, 3: -3, 4: -4}


def test_many_points_that_kill_their_workers_are_given_up_each() -> None:
    with open_executor("dask", workers=2) as executor:
        found = dict(executor.results(kill_from_ten, range(15), lambda number, message: -number))
    assert found == {number: number if number < 10 else -number for number in range(15)}


def test_results_are_released_at_the_scheduler() -> None:
    with open_executor("dask", workers=1) as executor:
        for number, _ in executor.results(abs, range(2000)):
            if number % 500 == 499:
                tasks = executor._cluster.scheduler.tasks  # type: ignore[attr-defined]
                assert len(tasks) <= 6


def test_a_scheduler_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ExecutorError, match=r"tcp://127\.0\.0\.1:1 cannot be reached"):
        clustersim.sweep(POINTS, executor="tcp://127.0.0.1:1")


_INTERRUPTED = """
import sys
from tests.sweep.test_pool import say_and_sleep
from clustersim.sweep import open_executor

if __name__ == "__main__":
    with open_executor("dask", 2) as executor:
        list(executor.results(say_and_sleep, [sys.argv[1]] * 2))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_local_workers_end_at_once_with_the_command(number: signal.Signals, tmp_path: Path) -> None:
    (said := tmp_path / "said").mkdir()
    (tmp_path / "command.py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + _INTERRUPTED
    )
    command = subprocess.Popen(
        [sys.executable, tmp_path / "command.py", said],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True, stderr=subprocess.PIPE,
    )  # fmt: skip
    until(lambda: len(list(said.iterdir())) == 2)
    workers = [int(path.name) for path in said.iterdir()]
    sent_s = time.monotonic()
    (os.killpg if number == signal.SIGINT else os.kill)(command.pid, number)
    command.communicate(timeout=30)
    until(lambda: not any(is_running(worker) for worker in workers), most_s=15)
    assert time.monotonic() - sent_s < 15
