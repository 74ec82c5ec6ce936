"""What was measured of a transport, as something that the simulator can repeat with other constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.hardware.sheet import Transport

Simulate = Callable[[Transport], float]
"""Gives the seconds that something takes with a transport's constants."""


@dataclass(frozen=True)
class Experiment:
    """One measured time, where it stands, and how to simulate it. `source` is a log's file or a case's name."""

    what: str
    source: str
    line: int
    num_bytes: float
    num_gpus: int
    measured_s: float
    simulate: Simulate
