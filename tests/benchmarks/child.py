"""A program run on its own, and what it cost: CPU time and peak memory of that process alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_BYTES_PER_MAXRSS = 1 if sys.platform == "darwin" else 1024  # getrusage counts KiB on Linux


class Child(NamedTuple):
    """What a program printed, its CPU seconds from start to exit, and the most memory it held.

    Memory a program held is never told as less than what this process holds, which the system counts
    while the program is being started; so whoever measures keeps small and imports nothing large.
    """

    stdout: str
    cpu_s: float
    max_rss_bytes: int


def run_child(command: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
    """Run a program to its end; raise RuntimeError with what it complained of when it fails."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True, env=env)
        assert process.stdout is not None
        with process.stdout:
            printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            complaints.seek(0)
            raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}\n{complaints.read()}")
    return Child(printed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _BYTES_PER_MAXRSS)
