"""The result of a validation: points, cases and the summary, and their `clustersim.validation/1` document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from clustersim.validation.metrics import si_unit, units_of
from clustersim.validation.score import RankedPoint, Summary, orderings, summarise

VALIDATION_SCHEMA = "clustersim.validation/1"

CHOSEN_AFTER_MARK = "\N{DAGGER}"
"""Marks a case in which something was chosen after its errors had been seen."""


@dataclass(frozen=True)
class Compared:
    """A measured figure and its simulated value, in the figure's unit; error is simulated / measured - 1."""

    metric: str
    num_gpus: int
    role: str
    simulated: float
    measured: float
    unit: str
    error: float
    provenance: str
    where: str
    label: str
    note: str
    scenario: str
    settings: Mapping[str, str]
    line: int
    features: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    method: str = ""

    @property
    def is_scored(self) -> bool:
        """Whether the error counts: a prediction of a figure that was read."""
        return self.role == "prediction" and self.provenance == "read"

    def to_dict(self) -> dict[str, Any]:
        """Return the point as JSON values; figures and their unit are converted to SI."""
        document = asdict(self)
        del document["group"], document["method"]
        size = units_of(self.metric)[self.unit]
        return {
            **document,
            "simulated": size * self.simulated,
            "measured": size * self.measured,
            "unit": si_unit(self.metric, self.unit),
            "settings": dict(self.settings),
            "features": dict(self.features),
        }


@dataclass(frozen=True)
class Skipped:
    """A case, or a point of it, that could not be compared, and why."""

    case: str
    reason: str


@dataclass(frozen=True)
class CaseVerdict:
    """One case with its points in the order of the table; `is_chosen_after` as in `Case`."""

    name: str
    title: str
    points: tuple[Compared, ...]
    is_chosen_after: bool = False

    @property
    def marked_name(self) -> str:
        """The name, with a dagger if something was chosen after errors had been seen."""
        return f"{self.name} {CHOSEN_AFTER_MARK}" if self.is_chosen_after else self.name

    def errors(self, role: str = "prediction") -> list[float]:
        """Return the errors of the points of a role that were read in their source."""
        return [point.error for point in self.points if point.role == role and point.provenance == "read"]

    def orderings(self) -> list[bool]:
        """Return for each pair of scored synchronization methods whether it is ranked as measured."""
        by_metric: dict[str, list[RankedPoint]] = {}
        for point in self.points:
            if point.is_scored:
                ranked = RankedPoint(point.group, point.method, point.simulated, point.measured)
                by_metric.setdefault(point.metric, []).append(ranked)
        return [right for points in by_metric.values() for right in orderings(points)]

    def summary(self) -> Summary:
        """Return the summary of the predicted points."""
        return summarise([self.errors()], self.orderings())

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "chosen_after_errors": self.is_chosen_after,
            "points": [point.to_dict() for point in self.points],
            "summary": asdict(self.summary()),
            "calibration": asdict(summarise([self.errors("calibration")])),
        }


@dataclass(frozen=True)
class Verdict:
    """All cases, the worst first, and what could not be compared."""

    version: str
    cases: tuple[CaseVerdict, ...]
    skipped: tuple[Skipped, ...] = ()

    def summary(self, is_chosen_after: bool | None = None) -> Summary:
        """Return the summary over all predicted points, with equal weight for every case.

        With `is_chosen_after` true or false, only over cases with or without a choice after errors were seen.
        """
        cases = [case for case in self.cases if is_chosen_after in (None, case.is_chosen_after)]
        ranked = [right for case in cases for right in case.orderings()]
        return summarise([case.errors() for case in cases], ranked)

    def calibration(self) -> Summary:
        """Return the summary of the figures that calibrate, which were inputs."""
        return summarise([case.errors("calibration") for case in self.cases])

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.validation/1` document."""
        return {
            "schema": VALIDATION_SCHEMA,
            "version": self.version,
            "cases": [case.to_dict() for case in self.cases],
            "summary": {**asdict(self.summary()), "skipped": [asdict(each) for each in self.skipped]},
            "summary_chosen_before": asdict(self.summary(is_chosen_after=False)),
            "summary_chosen_after": asdict(self.summary(is_chosen_after=True)),
            "calibration": asdict(self.calibration()),
        }


def worst_first(cases: Sequence[CaseVerdict]) -> tuple[CaseVerdict, ...]:
    """Return the cases in descending order of their median error; those without a predicted point are last."""
    return tuple(sorted(cases, key=lambda case: (-(case.summary().median_abs_error or -1.0), case.name)))
