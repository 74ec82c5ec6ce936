"""A measured time with a function that simulates it for any constants of a transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.hardware.sheet import Transport

Simulate = Callable[[Transport], float]
"""Returns the simulated seconds for the constants of a transport."""


@dataclass(frozen=True)
class Experiment:
    """One measured time, its place, and its simulation. `source` is the file of a log or the name of a case."""

    what: str
    source: str
    line: int
    num_bytes: float
    num_gpus: int
    measured_s: float
    simulate: Simulate
