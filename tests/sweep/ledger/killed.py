"""Runs `clustersim sweep` in processes that are killed at random moments, for test_crashes.py.

Prints how many points were begun in all of them. It takes the folder, the number of kills, a seed, and where points are
simulated: in-process, or on two processes, which are killed when one has begun a point.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from clustersim.cli import main
from clustersim.scenario import load_scenario
from clustersim.sweep.ledger.entry import PointEntry, make_entry
from clustersim.sweep.task import PointTask

COMMAND = ["sweep", "many.json", "--ledger", "a.db", "--workers", "2", "-q", "--on"]
POINT_S = {"in-process": 0.01, "processes": 0.1}
"""Time that a point takes at least. Of a tenth of a second, a batch has five points at most."""


def begin(task: PointTask) -> PointEntry:
    """Simulate a point, and note in a file that it was begun."""
    with Path("begun").open("ab", buffering=0) as file:
        file.write(b".")
    time.sleep(POINT_S[sys.argv[4]])
    return make_entry(task)


def num_begun() -> int:
    """Return how many points were begun so far."""
    return Path("begun").stat().st_size if Path("begun").exists() else 0


def ended(pid: int) -> bool:
    """Return whether a process has ended; its exit status can still be asked for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def child(kill_after_s: float | None) -> int:
    """Run the command in another process, and return its exit status; kill it after a time unless that is None."""
    pid = os.fork()
    if pid == 0:
        os._exit(main([*COMMAND, sys.argv[4]]))
    if kill_after_s is not None:
        before = num_begun()
        while sys.argv[4] == "processes" and num_begun() == before and not ended(pid):
            time.sleep(0.01)
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    import_module("clustersim.sweep.ledger.fill").make_entry = begin  # type: ignore[attr-defined]
    make_entry(PointTask(load_scenario("many.json", strict=False).trees()[0]))  # loads what each process needs
    draw, num_killed = random.Random(int(sys.argv[3])), 0
    for _ in range(int(sys.argv[2])):
        num_killed += child(draw.uniform(0.0, 0.4)) == -signal.SIGKILL
    assert child(None) == 0
    print(num_begun(), num_killed)
