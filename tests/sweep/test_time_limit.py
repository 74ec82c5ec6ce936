"""A time limit raises an error in the thread that works, and nothing after the work has ended."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import simpy

from clustersim.errors import InputError, TooLongError
from clustersim.sweep.time_limit import within


def busy(seconds: float) -> str:
    """Work in many short instructions, as a simulation does."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        sum(range(100))
    return "done"


def test_work_within_its_time_returns_its_result() -> None:
    assert within(None, lambda: busy(0.01)) == "done"
    assert within(30.0, lambda: busy(0.01)) == "done"


def test_longer_work_ends_with_an_error_that_names_the_limit() -> None:
    begin_s = time.perf_counter()
    with pytest.raises(TooLongError, match="it takes more than 200 ms to simulate"):
        within(0.2, lambda: busy(60.0))
    assert time.perf_counter() - begin_s < 20


def test_an_error_of_the_work_is_its_own() -> None:
    def wrong() -> None:
        raise InputError("wrong")

    with pytest.raises(InputError, match="wrong"):
        within(30.0, wrong)


def test_code_that_handles_every_exception_does_not_handle_this_one() -> None:
    def stubborn() -> str:
        while True:
            try:
                busy(60.0)
            except Exception:
                continue

    with pytest.raises(TooLongError):
        within(0.1, stubborn)


def test_processes_of_a_simulation_that_wait_for_each_other_end() -> None:
    def never(env: simpy.Environment) -> simpy.events.ProcessGenerator:
        while True:
            yield env.timeout(1.0)

    def simulate() -> None:
        env = simpy.Environment()
        others = [env.process(never(env)) for _ in range(10)]
        env.run(simpy.AllOf(env, others))

    with pytest.raises(TooLongError):
        within(0.2, simulate)


def test_nothing_is_raised_after_work_that_ends_as_its_time_does() -> None:
    ends = {"in time": 0, "too late": 0}
    for number in range(300):
        try:
            within(0.002, lambda number=number: busy(0.0002 * (number % 80)))  # type: ignore[misc]
            ends["in time"] += 1
        except TooLongError:
            ends["too late"] += 1
        sum(range(200))  # where a late exception would be raised
    assert min(ends.values()) > 0


def test_each_thread_has_its_own_limit() -> None:
    with ThreadPoolExecutor(2) as threads:
        short = threads.submit(within, 0.2, lambda: busy(60.0))
        long = threads.submit(within, 60.0, lambda: busy(0.6))
        assert long.result() == "done"
        assert isinstance(short.exception(), TooLongError)


_DURING_AN_IMPORT = """
import sys, time
from clustersim.errors import TooLongError
from clustersim.sweep.time_limit import within

def work():
    import slow_to_import
    while True:
        sum(range(100))

try:
    within(0.1, work)
except TooLongError:
    import slow_to_import
    print("whole" if slow_to_import.is_whole else "half")
"""


def test_an_import_is_not_cut(tmp_path) -> None:
    (tmp_path / "slow_to_import.py").write_text(
        "import time\nis_whole = False\nend = time.time() + 0.5\nwhile time.time() < end:\n    pass\nis_whole = True\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{_DURING_AN_IMPORT}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("whole\n", "")


class _Late:
    """An object whose destructor takes its time; Python drops what is raised in one."""

    def __del__(self) -> None:
        busy(0.3)


def test_an_exception_that_a_destructor_loses_is_raised_again(capsys: pytest.CaptureFixture[str]) -> None:
    hook = sys.unraisablehook

    def work() -> None:
        late = _Late()
        del late
        busy(60.0)

    with pytest.raises(TooLongError):
        within(0.1, work)
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is hook


@pytest.mark.parametrize("limit_s", [0.05, 60.0])
def test_code_can_be_profiled_after_a_time_limit(limit_s: float) -> None:
    """Python 3.11 hangs there if an exception was to be raised in the thread and was taken back."""
    code = f"""
import sys, time
from clustersim.errors import TooLongError
from clustersim.sweep.time_limit import within
for pause_s in (0.2, 0.05, 0.049, 0.0):
    try:
        within({limit_s}, lambda: time.sleep(pause_s))
    except TooLongError:
        pass
calls = []
sys.setprofile(lambda *event: calls.append(event[1]))
(lambda: len("a"))()
sys.setprofile(None)
print(len(calls) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
