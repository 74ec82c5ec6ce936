"""Whether the machine had other things to do: what was measured meanwhile is no judge of the simulator."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

NUM_ROUNDS = 40
_LOOPS = 100_000
"""Of one round of the spin: a few milliseconds, so that most rounds see no other process."""

MOST_SLOWER, MOST_STOLEN = 1.25, 0.05


@dataclass(frozen=True)
class Load:
    """A look at the machine: what wants its cores, what a spin of known work takes, and whose its processors were.

    `spin_s` [NUM_ROUNDS] are the seconds of each round. `worked`, `there` and `stolen` count processor time since the
    machine began, in a unit of the kernel's own; `stolen` went to other machines on the same host.
    """

    num_waiting: float
    spin_s: Sequence[float]
    worked: float
    there: float
    stolen: float

    @classmethod
    def now(cls) -> Load:
        """Look, and spin for a moment."""
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
    """Return which share of the processors worked between two looks, or was `stolen`."""
    there = after.there - before.there  # the kernel counts in hundredths of a second
    return (getattr(after, what) - getattr(before, what)) / there if there else 0.0


def loaded(before: Load, after: Load, num_cores: int) -> str | None:
    """Return what else a machine did between two looks, in words; None where it did nothing else.

    How many processes wait counts before only: afterwards they are the campaign's own.
    """
    least_s = min(*before.spin_s, *after.spin_s)
    slower = [mean(each.spin_s) / least_s for each in (before, after)]
    said = []
    if before.num_waiting > num_cores:
        said.append(f"{before.num_waiting:.1f} processes wanted its {num_cores} cores when it began")
    if max(slower) > MOST_SLOWER:
        said.append(f"known work took {slower[0]:.2f} times as long as its quickest part before, {slower[1]:.2f} after")
    if (stolen := share(before, after, "stolen")) > MOST_STOLEN:
        said.append(f"{stolen:.0%} of its processors went to other machines of its host")
    return "; ".join(said) or None
