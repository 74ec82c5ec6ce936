"""The comparison of two forecasts as plain data. Its JSON form is `clustersim.diff/1`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from clustersim.difference.basis import DiffBasis
from clustersim.difference.decompose import CauseChange, PartChange, part_changes
from clustersim.difference.links import LinkChange, link_changes
from clustersim.difference.settings import SettingChange, fact_changes, setting_changes
from clustersim.difference.sheets import sheet_changes
from clustersim.results import PointError, Run, Sweep
from clustersim.results.rows import Cell

DIFF_SCHEMA = "clustersim.diff/1"

_EQUAL = 1e-9
"""Relative difference up to which two times are the same."""

_FIGURES = ("num_gpus", "batch_per_gpu", "iteration_s", "samples_per_s", "tokens_per_s", "efficiency", "mfu")


@dataclass(frozen=True)
class KeyEffect:
    """Seconds per unit of the basis that the first scenario takes more with one key of the second.

    None where it is refused with this key alone; `refusal` says why.
    """

    key: str
    change_s: float | None
    refusal: str = ""


@dataclass(frozen=True)
class FailedPoint:
    """A point that is not compared since one of the two, `side` A or B, has no forecast of it."""

    side: str
    axes: Mapping[str, Any]
    error: PointError


@dataclass(frozen=True)
class PointDifference:
    """Two runs, each with its sweep, and the basis on which their seconds are compared."""

    sweeps: tuple[Sweep, Sweep]
    runs: tuple[Run, Run]
    basis: DiffBasis

    @cached_property
    def parts(self) -> tuple[PartChange, ...]:
        """All parts of an iteration in both runs; the changes sum to `change_s`."""
        return part_changes(*self.runs, self.basis)

    @cached_property
    def links(self) -> tuple[LinkChange, ...]:
        """The classes of links that carry anything."""
        return link_changes(*self.runs, self.basis)

    @cached_property
    def settings(self) -> tuple[SettingChange, ...]:
        """The keys of the scenarios that differ."""
        return setting_changes((self.sweeps[0], self.runs[0]), (self.sweeps[1], self.runs[1]))

    @cached_property
    def facts(self) -> tuple[SettingChange, ...]:
        """What differs in what the runs took, and in the sheets of their GPUs."""
        sides = (self.sweeps[0], self.runs[0]), (self.sweeps[1], self.runs[1])
        has_other_cluster = any(change.key.partition(".")[0] == "topology" for change in self.settings)
        sheets = sheet_changes(*sides) if has_other_cluster else ()
        known = {change.key for change in sheets} | ({"rate of gpu-memory"} if sheets else set())
        return (*sheets, *(change for change in fact_changes(*self.runs) if change.key not in known))

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds of the basis in both runs."""
        a, b = (run.iteration_s / self.basis.per_iteration(run) for run in self.runs)
        return a, b

    @property
    def change_s(self) -> float:
        """Seconds that the second run takes more."""
        return self.seconds[1] - self.seconds[0]

    @property
    def factor(self) -> float:
        """How many times as long the longer one takes."""
        return max(self.seconds) / min(self.seconds)

    @property
    def is_equal(self) -> bool:
        """Whether both runs take the same time, in the same parts."""
        pairs = [self.seconds, *((part.a_s, part.b_s) for part in self.parts)]
        return all(math.isclose(a, b, rel_tol=_EQUAL, abs_tol=_EQUAL * self.seconds[0]) for a, b in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return one entry of `differences` in a `clustersim.diff/1` document."""
        return {
            "a": _side(*self._side(0)),
            "b": _side(*self._side(1)),
            "basis": self.basis.name,
            "a_s": self.seconds[0],
            "b_s": self.seconds[1],
            "change_s": self.change_s,
            "parts": [_part(part) for part in self.parts],
            "links": [_link(links) for links in self.links],
            "settings": [_setting(change) for change in self.settings],
            "facts": [_setting(change) for change in self.facts],
        }

    def _side(self, number: int) -> tuple[Sweep, Run, float]:
        run = self.runs[number]
        return self.sweeps[number], run, self.basis.per_iteration(run)

    def to_rows(self) -> list[dict[str, Cell]]:
        """Return a row for the whole, for each part that takes time in either run, and for each cause."""
        axes: dict[str, Cell] = {"a": _point(self.runs[0]), "b": _point(self.runs[1]), "basis": self.basis.name}
        rows = [axes | _row("total", "", *self.seconds)]
        for part in self.parts:
            if part.a_s or part.b_s:
                rows.append(axes | _row(part.part, "", part.a_s, part.b_s))
                rows += [axes | _row(part.part, cause.name, cause.a_s, cause.b_s) for cause in part.causes]
        return rows


@dataclass(frozen=True)
class Difference:
    """Two forecasts, named `a` and `b`, compared point by point; `differences` has at least one.

    `only_a` and `only_b` are the axes of points that the other does not have; `failed` are those that one of the two
    has no forecast of. `effects` are what the keys that differ
    in the main pair do alone, where that was asked for.
    """

    names: tuple[str, str]
    differences: tuple[PointDifference, ...]
    only_a: tuple[Mapping[str, Any], ...] = ()
    only_b: tuple[Mapping[str, Any], ...] = ()
    failed: tuple[FailedPoint, ...] = ()
    effects: tuple[KeyEffect, ...] = ()

    @cached_property
    def main(self) -> PointDifference:
        """The points whose times differ by the largest factor; of equal ones the last."""
        return max(reversed(self.differences), key=lambda each: round(each.factor, 9))

    @property
    def versions(self) -> tuple[str, str]:
        """The versions of clustersim that made the results."""
        a, b = (sweep.version for sweep in self.differences[0].sweeps)
        return a, b

    @property
    def answer(self) -> tuple[str, ...]:
        """The causes in sentences."""
        from clustersim.difference.sentences import sentences

        return sentences(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a `clustersim.diff/1` document."""
        from clustersim.report.text_table import plain

        return {
            "schema": DIFF_SCHEMA,
            "a": {"name": self.names[0], "version": self.versions[0]},
            "b": {"name": self.names[1], "version": self.versions[1]},
            "answer": [plain(sentence) for sentence in self.answer],
            "differences": [each.to_dict() for each in self.differences],
            "only_a": [dict(axes) for axes in self.only_a],
            "only_b": [dict(axes) for axes in self.only_b],
            "failed": [
                {"side": each.side.lower(), "axes": dict(each.axes), "error": each.error.to_dict()}
                for each in self.failed
            ],
            "one_by_one": [asdict(effect) for effect in self.effects],
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """Return the rows of all points, as the CSV has them."""
        return [row for each in self.differences for row in each.to_rows()]


def _side(sweep: Sweep, run: Run, units: float) -> dict[str, Any]:
    figures = {name: getattr(run, name) for name in _FIGURES}
    return {"axes": dict(run.axes), "seed": sweep.seed, **figures, "per_iteration": units}


def _part(part: PartChange) -> dict[str, Any]:
    causes = [_cause(cause) for cause in part.causes]
    return {"part": part.part, "a_s": part.a_s, "b_s": part.b_s, "change_s": part.change_s, "causes": causes}


def _cause(cause: CauseChange) -> dict[str, Any]:
    known = {"name": cause.name, "number": cause.number, "is_rest": cause.is_rest}
    return {**known, "a_s": cause.a_s, "b_s": cause.b_s, "change_s": cause.change_s}


def _link(links: LinkChange) -> dict[str, Any]:
    names = ("num_links", "num_bytes", "bytes_per_s", "max_utilisation", "busy_s")
    pairs = {f"{side}_{name}": getattr(links, name)[number] for number, side in enumerate("ab") for name in names}
    return {
        "kind": links.kind,
        **pairs,
        "change_s": links.change_s,
        "by_bytes_s": links.by_bytes_s,
        "by_rate_s": links.by_rate_s,
    }


def _setting(change: SettingChange) -> dict[str, Any]:
    from clustersim.difference.settings import ABSENT

    return {
        "key": change.key,
        **{side: None if value is ABSENT else value for side, value in (("a", change.a), ("b", change.b))},
    }


def _point(run: Run) -> str:
    return ", ".join(f"{key} {value}" for key, value in run.axes.items())


def _row(part: str, name: str, a_s: float, b_s: float) -> dict[str, Cell]:
    return {"part": part, "cause": name, "a_s": a_s, "b_s": b_s, "change_s": b_s - a_s}
