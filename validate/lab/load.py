"""Detects other load on the machine, which makes measurements useless for a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

NUM_ROUNDS = 40
_LOOPS = 100_000
"""Iterations of one round of the spin loop: a few milliseconds, so that most rounds are undisturbed."""

MOST_SLOWER, MOST_STOLEN = 1.25, 0.05


@dataclass(frozen=True)
class Load:
    """A sample of the machine's load: waiting processes, the times of a fixed spin loop, and processor times.

    `spin_s` [NUM_ROUNDS] are the seconds of each round. `worked`, `there` (all of it) and `stolen` are processor times
    since boot, in ticks of the kernel; `stolen` went to other virtual machines on the same host.
    """

    num_waiting: float
    spin_s: Sequence[float]
    worked: float
    there: float
    stolen: float

    @classmethod
    def now(cls) -> Load:
        """Take a sample; this spins for a moment."""
        spin_s = [_round() for _ in range(NUM_ROUNDS)]
        line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
        user, nice, system, idle, waiting, *interrupts, stolen = map(float, line.split()[1:9])
        worked = user + nice + system + sum(interrupts) + stolen
        return cls(os.getloadavg()[0], spin_s, worked, worked + idle + waiting, stolen)


def _round() -> float:
    began_s = time.perf_counter()
    sum(range(_LOOPS))
    return time.perf_counter() - began_s


def share(before: Load, after: Load, what: str = "worked") -> float:
    """Return the share of processor time that was `worked` or `stolen` between two samples."""
    there = after.there - before.there  # the resolution of the kernel is 10 ms
    return (getattr(after, what) - getattr(before, what)) / there if there else 0.0


def loaded(before: Load, after: Load, num_cores: int) -> str | None:
    """Return text about other load between two samples; None if there was none.

    The number of waiting processes counts only before: after a campaign it includes its own processes.
    """
    least_s = min(*before.spin_s, *after.spin_s)
    slower = [mean(each.spin_s) / least_s for each in (before, after)]
    found = []
    if before.num_waiting > num_cores:
        found.append(f"{before.num_waiting:.1f} processes waited for its {num_cores} cores at the start")
    if max(slower) > MOST_SLOWER:
        found.append(f"a fixed loop took {slower[0]:.2f} times its shortest time before, {slower[1]:.2f} times after")
    if (stolen := share(before, after, "stolen")) > MOST_STOLEN:
        found.append(f"{stolen:.0%} of its processor time went to other virtual machines")
    return "; ".join(found) or None
