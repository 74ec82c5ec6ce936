"""What was measured on what: the machine, the versions, and how long a loop takes that has nothing to do with us."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version as installed_version
from pathlib import Path

from .child import run_child
from .simgrid.programs import version as simgrid_version

CALIBRATION_LOOPS = 1_000_000
ROOT = Path(__file__).resolve().parents[2]


def calibrate(times: int = 5) -> float:
    """Return the CPU seconds of a million additions in a Python loop, the median of some."""
    return statistics.median(_loop() for _ in range(times))


def _loop() -> float:
    start = time.process_time()
    total = 0
    for number in range(CALIBRATION_LOOPS):
        total += number
    return time.process_time() - start


def imports(modules: str, times: int = 3) -> float:
    """Return the CPU seconds of a process that imports modules and ends, the median of some."""
    command = [sys.executable, "-c", f"import {modules}"]
    return statistics.median(run_child(command).cpu_s for _ in range(times))


def describe_machine() -> str:
    """Return processor, cores and memory in a phrase."""
    cores = os.cpu_count()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{_processor()}, {cores} cores, {pages:.0f} GiB of memory, {platform.system()}"


def describe_versions() -> str:
    """Return the versions of what takes part, in a phrase."""
    packages = [f"{name} {installed_version(name)}" for name in ("numpy", "numba", "simpy")]
    simgrid = f"SimGrid {simgrid_version()}" if simgrid_version() else "no SimGrid"
    return ", ".join(
        [f"clustersim {installed_version('clustersim')}", f"CPython {platform.python_version()}", *packages, simgrid]
    )


def describe_commit() -> str:
    """Return the commit that was measured and its date, and whether files differed from it."""
    said = _git("log", "-1", "--format=%h of %cs")
    changed = _git("status", "--porcelain", "--", "clustersim", "tests/benchmarks")
    return f"{said}{', with changes' if changed else ''}" if said else "no commit"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
