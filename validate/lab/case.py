"""One case of the lab: its measurements, and its input for the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

HEADERS = 1448 / 1514
"""Payload share of a full Ethernet frame: the share of a link's rate that TCP can deliver."""


@dataclass(frozen=True)
class Measured:
    """A figure: the median, the least, the most and the number of its repeats."""

    median: float
    least: float
    most: float
    num_repeats: int

    @classmethod
    def of(cls, repeats: Sequence[float]) -> Measured:
        """Return the figure of some repeats.

        >>> Measured.of([1.0, 4.0, 2.0])
        Measured(median=2.0, least=1.0, most=4.0, num_repeats=3)
        """
        return cls(median(repeats), min(repeats), max(repeats), len(repeats))


@dataclass(frozen=True)
class Case:
    """One case of a campaign.

    `ask` is the input for clustersim: a scenario, a collective (`collective`, `topology`, `bytes`, ...), or flows
    (`topology`, `flows`). `files` are the texts of the files that it names. `figures` are by metric, in SI;
    `staleness` has the count of each value. `line_s` is the time of a message of the case on one link. `learned` is
    what came of a real training of a task, as JSON values.
    """

    group: str
    name: str
    ask: Mapping[str, Any]
    figures: Mapping[str, Measured]
    line_s: float
    files: Mapping[str, str] = field(default_factory=dict)
    staleness: Mapping[int, int] = field(default_factory=dict)
    learned: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON values."""
        return {**asdict(self), "staleness": {str(value): count for value, count in self.staleness.items()}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Case:
        """Read what `to_dict` wrote."""
        figures = {metric: Measured(**figure) for metric, figure in document["figures"].items()}
        staleness = {int(value): count for value, count in document["staleness"].items()}
        return cls(**{**document, "figures": figures, "staleness": staleness})


def line_s(num_bytes: float, megabits_per_s: float) -> float:
    """Return the seconds that `num_bytes` of payload take on one link.

    >>> round(line_s(1e6, 100), 5)
    0.08365
    """
    return num_bytes * 8 / (HEADERS * megabits_per_s * 1e6)
