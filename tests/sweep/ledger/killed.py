"""Runs `clustersim sweep` in processes that are killed at random moments, for test_crashes.py.

Prints how many points were begun in all of them. It takes the folder, the number of kills and a seed.
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

COMMAND = ["sweep", "many.json", "--ledger", "a.db", "--on", "in-process", "-q"]


def begin(task: PointTask) -> PointEntry:
    """Simulate a point, and note in a file that it was begun."""
    with Path("begun").open("ab", buffering=0) as file:
        file.write(b".")
    time.sleep(0.01)
    return make_entry(task)


def child(kill_after_s: float | None) -> int:
    """Run the command in another process, and return its exit status; kill it after a time unless that is None."""
    pid = os.fork()
    if pid == 0:
        os._exit(main(COMMAND))
    if kill_after_s is not None:
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
    print(Path("begun").stat().st_size, num_killed)
