"""Scores first forecasts against the figures of the register, beside the present version's forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError
from clustersim.validation.metrics import si_unit, units_of
from clustersim.validation.pool import OnProgress, answer_all
from clustersim.validation.register.entry import RegisterEntry, load_entries
from clustersim.validation.score import Summary, summarise
from clustersim.validation.validate import beside, compared, mistakes_of
from clustersim.validation.verdict import CaseVerdict, Compared, Skipped

REGISTER_SCHEMA = "clustersim.register/1"


_TIMES = ("iteration_s", "update_s", "time_to_train_s")
"""Metrics that are the smaller the faster a training is."""


@dataclass(frozen=True)
class EntryScore:
    """One entry with figures: its first forecasts beside them, and those of the present version if it was asked.

    `present` lacks the points whose simulation failed.
    """

    entry: RegisterEntry
    first: CaseVerdict
    present: CaseVerdict | None = None

    def pairs(self) -> list[tuple[Compared, Compared | None]]:
        """Return every figure with its first forecast, and with the present one if there is one."""
        present = {point.line: point for point in self.present.points} if self.present is not None else {}
        return [(point, present.get(point.line)) for point in self.first.points]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values; figures and their unit are converted to SI."""
        first = self.entry.first
        return {
            "name": self.entry.name,
            "title": self.entry.title,
            "source": self.entry.source,
            "published": self.entry.published or None,
            "date": first.date,
            "version": first.code.version,
            "commit": first.code.commit,
            "num_migrations": len(first.migrations),
            "points": [_point_dict(*pair) for pair in self.pairs()],
            "first": asdict(self.first.summary()),
            "present": None if self.present is None else asdict(self.present.summary()),
        }


@dataclass(frozen=True)
class RegisterScore:
    """All entries: those with figures, the worst first, and the names of those that wait for their figures."""

    version: str
    entries: tuple[EntryScore, ...]
    waiting: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def has_present(self) -> bool:
        """Whether the present version was asked too."""
        return any(score.present is not None for score in self.entries)

    def errors_by_source(self, present: bool = False) -> dict[str, list[float]]:
        """Return the errors of the scored points of each source that has some, of first or of present forecasts."""
        found: dict[str, list[float]] = {}
        for score in self.entries:
            verdict = score.present if present else score.first
            if verdict is not None and verdict.errors():
                found.setdefault(score.entry.source, []).extend(verdict.errors())
        return found

    def summary(self, present: bool = False) -> Summary:
        """Return the summary over all scored points, with equal weight for every source."""
        verdicts = [score.present if present else score.first for score in self.entries]
        ranked = [right for verdict in verdicts if verdict is not None for right in verdict.orderings()]
        return summarise(list(self.errors_by_source(present).values()), ranked)

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.register/1` document."""
        return {
            "schema": REGISTER_SCHEMA,
            "version": self.version,
            "entries": [score.to_dict() for score in self.entries],
            "waiting": list(self.waiting),
            "num_sources": len(self.errors_by_source()),
            "first": asdict(self.summary()),
            "present": asdict(self.summary(present=True)) if self.has_present else None,
            "skipped": [asdict(each) for each in self.skipped],
        }


def score_register(
    names: Sequence[str] = (),
    replay: bool = True,
    on_progress: OnProgress = lambda share, what: None,
    workers: int = 0,
) -> RegisterScore:
    """Compare the figures of these entries (names or folders; by default all shipped ones) with their forecasts.

    With `replay`, the present version simulates the points again, from the same files. Mistakes in the input are raised
    at once; a simulation that fails is listed under `skipped`, and its first forecast is scored all the same.
    """
    entries = load_entries(names)
    known = [entry for entry in entries if entry.rows]
    waiting = tuple(entry.name for entry in entries if not entry.rows)
    scores = [EntryScore(entry, first_verdict(entry)) for entry in known]
    skipped: list[Skipped] = []
    if replay and known:
        scores, skipped = _replayed(scores, on_progress, workers)
    scores.sort(key=lambda score: (-(score.first.summary().median_abs_error or -1.0), score.entry.name))
    return RegisterScore(__version__, tuple(scores), waiting, tuple(skipped))


def in_speed(point: Compared) -> Compared:
    """Return a figure with the error of the speed: that of a time is measured / simulated - 1.

    So a positive error is a forecast that is too quick, whatever was measured, and one that is far too quick is not
    bounded by 100 %.
    """
    if point.metric not in _TIMES:
        return point
    return replace(point, error=point.measured / point.simulated - 1.0)


def first_verdict(entry: RegisterEntry) -> CaseVerdict:
    """Return the figures of an entry beside its first forecasts."""
    points = []
    for row in entry.rows:
        first = entry.first_of(row)
        sizes = units_of(row.metric)
        value = first.value * sizes[first.unit] / sizes[row.unit]
        points.append(in_speed(beside(row, value, first.num_gpus, first.features, first.group, first.method)))
    return CaseVerdict(entry.name, entry.title, tuple(points))


def _replayed(
    scores: Sequence[EntryScore], on_progress: OnProgress, workers: int
) -> tuple[list[EntryScore], list[Skipped]]:
    """Return the scores with the forecasts of the present version, and the points that it could not simulate."""
    asked = [(score.entry, row) for score in scores for row in score.entry.rows]
    questions = list(dict.fromkeys(entry.question(row) for entry, row in asked))
    answers = dict(zip(questions, answer_all(questions, on_progress, workers), strict=True))
    mistakes = [mistake for entry, row in asked for mistake in mistakes_of(row, answers[entry.question(row)])]
    if mistakes:
        raise InputError(dict.fromkeys(mistakes))
    found, skipped = [], []
    for score in scores:
        points = []
        for row in score.entry.rows:
            answer = answers[score.entry.question(row)]
            if answer.document is not None:
                points.append(in_speed(compared(row, answer)))
                continue
            which = " ".join([f"{row.scenario}.yaml", *row.overrides])
            skipped.append(Skipped(score.entry.name, f"{which}: {answer.failure}"))
        present = CaseVerdict(score.entry.name, score.entry.title, tuple(points))
        found.append(replace(score, present=present))
    return found, list(dict.fromkeys(skipped))


def _point_dict(first: Compared, present: Compared | None) -> dict[str, Any]:
    size = units_of(first.metric)[first.unit]
    return {
        "metric": first.metric,
        "num_gpus": first.num_gpus,
        "scenario": first.scenario,
        "settings": dict(first.settings),
        "label": first.label,
        "role": first.role,
        "provenance": first.provenance,
        "where": first.where,
        "unit": si_unit(first.metric, first.unit),
        "measured": size * first.measured,
        "first": size * first.simulated,
        "first_error": first.error,
        "present": None if present is None else size * present.simulated,
        "present_error": None if present is None else present.error,
    }
