"""The difference of two runs as a sum: by part of an iteration, and each part by its causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.difference.basis import DiffBasis
from clustersim.difference.details import DETAILS, Detail, Details, layer_details, rest_of
from clustersim.report.layers import common_name
from clustersim.report.words import plural
from clustersim.results import BREAKDOWN, Run

MOST_CAUSES = 40
"""Causes of a part; of more, those that change least are one."""

_MATCHED = 0.5
"""Share of the seconds of layers that must have a name in both runs; with fewer, kinds of layers are compared."""

_ROUNDING = 1e-12
"""Share of a part up to which what is left of it is rounding."""

_NOTHING = Detail((), 0.0)


@dataclass(frozen=True)
class CauseChange:
    """Seconds with one cause in both runs, per unit of the basis; `number` is how many layers or collectives it sums.

    `is_rest` marks what has no cause in the results.
    """

    name: str
    number: int
    a_s: float
    b_s: float
    is_rest: bool = False

    @property
    def change_s(self) -> float:
        """Seconds that the second run takes more."""
        return self.b_s - self.a_s


@dataclass(frozen=True)
class PartChange:
    """One part of an iteration in both runs, per unit of the basis; its causes sum to it, if it has any."""

    part: str
    a_s: float
    b_s: float
    causes: tuple[CauseChange, ...] = ()

    @property
    def change_s(self) -> float:
        """Seconds that the second run takes more."""
        return self.b_s - self.a_s


def part_changes(a: Run, b: Run, basis: DiffBasis) -> tuple[PartChange, ...]:
    """Return all parts of an iteration; those of each run sum to the seconds of the basis."""
    units = basis.per_iteration(a), basis.per_iteration(b)
    found = []
    for part in BREAKDOWN:
        seconds = a.breakdown_s.get(part, 0.0) / units[0], b.breakdown_s.get(part, 0.0) / units[1]
        found.append(PartChange(part, *seconds, causes=_causes(part, (a, b), units, seconds)))
    return tuple(found)


def _causes(
    part: str, runs: tuple[Run, Run], units: tuple[float, float], seconds: tuple[float, float]
) -> tuple[CauseChange, ...]:
    """Return the causes of a part, those that change most first; none where they are not known of both runs."""
    details = _details(part, runs, seconds)
    if details is None or not any(seconds):
        return ()
    each = [
        CauseChange(_name(*pair), _number(*pair), pair[0].seconds / units[0], pair[1].seconds / units[1])
        for pair in _pairs(*details)
    ]
    each.sort(key=lambda cause: (-abs(cause.change_s), -max(cause.a_s, cause.b_s)))
    if len(each) > MOST_CAUSES:
        each = [*each[: MOST_CAUSES - 1], _sum(each[MOST_CAUSES - 1 :])]
    sums = sum(cause.a_s for cause in each), sum(cause.b_s for cause in each)
    rest = CauseChange(rest_of(part), 1, seconds[0] - sums[0], seconds[1] - sums[1], is_rest=True)
    is_seen = max(abs(rest.a_s), abs(rest.b_s)) > _ROUNDING * max(seconds)
    return (*each, rest) if is_seen else tuple(each)


def _details(part: str, runs: tuple[Run, Run], seconds: Sequence[float]) -> tuple[Details, Details] | None:
    """Return the details of a part in both runs: of compute by kind of layer where the layers have other names."""
    if part not in DETAILS:
        return None
    found = [{} if spent_s == 0 else DETAILS[part](run) for run, spent_s in zip(runs, seconds, strict=True)]
    first, second = found
    if first is None or second is None:
        return None
    if part == "compute" and min(_shared(first, second), _shared(second, first)) < _MATCHED:
        return layer_details(runs[0], by_kind=True) or {}, layer_details(runs[1], by_kind=True) or {}
    return first, second


def _shared(details: Details, others: Details) -> float:
    """Return the share of the seconds whose names the others have too."""
    total = sum(each.seconds for each in details.values())
    return sum(each.seconds for key, each in details.items() if key in others) / total if total else 1.0


def _pairs(first: Details, second: Details) -> list[tuple[Detail, Detail]]:
    keys = dict.fromkeys([*first, *second])
    return [(first.get(key, _NOTHING), second.get(key, _NOTHING)) for key in keys]


def _name(first: Detail, second: Detail) -> str:
    return first.kind or second.kind or common_name(list(dict.fromkeys((*first.names, *second.names))))


def _number(first: Detail, second: Detail) -> int:
    return max(len(first.names), len(second.names))


def _sum(causes: Sequence[CauseChange]) -> CauseChange:
    """Return several causes as one."""
    a_s, b_s = sum(cause.a_s for cause in causes), sum(cause.b_s for cause in causes)
    return CauseChange(plural(len(causes), "other"), sum(cause.number for cause in causes), a_s, b_s)
