"""A pool returns the same results as one process, in the order of the items."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clustersim.errors import ExecutorError
from clustersim.sweep.pool import ProcessPool, num_cores

ROOT = Path(__file__).resolve().parents[2]


def late(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def process_id(number: int) -> int:
    return os.getpid()


def garbage_is_looked_for_after(number: int) -> int:
    return gc.get_threshold()[0]


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def test_results_are_in_the_order_of_the_items():
    calls: list[int] = []
    with ProcessPool(2) as pool:
        assert pool.map(late, [0.3, 0.0, 0.1], lambda number, num_done: calls.append(num_done)) == [0.3, 0.0, 0.1]
    assert calls == [1, 2, 3]


def test_workers_look_for_garbage_more_seldom_than_the_command():
    before = garbage_is_looked_for_after(0)
    with ProcessPool(2) as pool:
        assert min(pool.map(garbage_is_looked_for_after, [0, 1])) > 10_000
    assert garbage_is_looked_for_after(0) == before


def test_one_process_or_one_item_is_done_here():
    with ProcessPool(1) as pool:
        assert pool.map(process_id, [1, 2]) == [os.getpid()] * 2
    with ProcessPool(2) as pool:
        assert pool.map(process_id, [1]) == [os.getpid()]


def test_the_processes_serve_several_rounds():
    with ProcessPool(2) as pool:
        first, second = set(pool.map(process_id, range(8))), set(pool.map(process_id, range(8)))
    assert os.getpid() not in first | second
    assert len(first | second) <= 2


def test_an_error_in_a_process_is_raised_here():
    with pytest.raises(ValueError, match=r"no [12]"), ProcessPool(2) as pool:
        pool.map(fail, [1, 2])


def kill_once(flag: str) -> int:
    """End the process at the first call with a file that is not there yet."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def kill_at_two(number: int) -> int:
    if number == 2:
        os._exit(1)
    return -number


def kill_from_ten(number: int) -> int:
    if number >= 10:
        os._exit(1)
    return number


def test_items_of_a_process_that_is_killed_are_done_by_another(tmp_path: Path) -> None:
    with ProcessPool(2) as pool:
        before = set(pool.map(process_id, range(8)))
        found = pool.map(kill_once, [str(tmp_path / "a"), str(tmp_path / "b"), *[str(tmp_path)] * 8])
        assert len(found) == 10
        assert len(set(found) - before) >= 1
        assert pool.map(abs, [-1, -2]) == [1, 2]


def test_an_item_that_ends_three_processes_is_given_up() -> None:
    with ProcessPool(2) as pool:
        found = dict(pool.results(kill_at_two, range(5), lambda number, message: 100 + number))
    assert found == {0: 0, 1: -1, 2: 102, 3: -3, 4: -4}
    with ProcessPool(2) as pool, pytest.raises(ExecutorError, match="its process was killed"):
        pool.map(kill_at_two, range(5))


def test_a_process_that_ended_between_two_rounds_is_replaced() -> None:
    with ProcessPool(2) as pool:
        for pid in set(pool.map(process_id, range(8))):
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not is_running(pid))
        assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]


def test_processes_that_cannot_start_are_an_error(tmp_path: Path) -> None:
    """As where a script has no `if __name__ == "__main__"`, so that each process begins the script anew."""
    script = tmp_path / "command.py"
    script.write_text("from clustersim.sweep.pool import ProcessPool\nProcessPool(2).map(abs, [1, 2])\n")
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "3 worker processes in a row could not start" in done.stderr


_SLEEP_IN_WORKERS = """
import sys
from pathlib import Path
from tests.sweep.test_pool import say_and_sleep
from clustersim.sweep.pool import ProcessPool

if __name__ == "__main__":
    with ProcessPool(2) as pool:
        pool.map(say_and_sleep, [sys.argv[1]] * 2)
"""


def say_and_sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_command(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(_SLEEP_IN_WORKERS)
    (said := tmp_path / "said").mkdir()
    with subprocess.Popen(
        [sys.executable, script, said], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as command:
        until(lambda: len(list(said.iterdir())) == 2)
        command.send_signal(number)
    workers = [int(path.name) for path in said.iterdir()]
    until(lambda: not any(is_running(worker) for worker in workers))


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_command_that_is_interrupted_with_its_workers_ends_them_and_leaves_nothing(
    is_ignored: bool, tmp_path: Path
) -> None:
    """As Ctrl-C in a terminal does; a shell lets commands in the background ignore it, and then they go on."""
    script = tmp_path / "command.py"
    handler = "SIG_IGN" if is_ignored else "default_int_handler"
    begin = f"import signal\nsignal.signal(signal.SIGINT, signal.{handler})\n"
    script.write_text(begin + _SLEEP_IN_WORKERS)
    (said := tmp_path / "said").mkdir()
    command = subprocess.Popen(
        [sys.executable, script, said],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(list(said.iterdir())) == 2)
    workers = [int(path.name) for path in said.iterdir()]
    os.killpg(command.pid, signal.SIGINT)
    if is_ignored:
        time.sleep(0.5)
        assert all(is_running(worker) for worker in workers)
        command.kill()
    _, printed = command.communicate(timeout=30)
    until(lambda: not any(is_running(worker) for worker in workers))
    assert "BrokenProcessPool" not in printed
    assert is_ignored or ("KeyboardInterrupt" in printed and "leaked" not in printed)


def until(has_come: Callable[[], bool], most_s: float = 60) -> None:
    end_s = time.monotonic() + most_s
    while not has_come():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_there_is_a_core():
    assert num_cores() >= 1
