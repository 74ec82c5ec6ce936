"""Simulates the figures of cases and compares them with the measured values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.validation.case import Case, load_cases
from clustersim.validation.measured import Measured, TableRow
from clustersim.validation.metrics import simulated
from clustersim.validation.pool import OnProgress, answer_all
from clustersim.validation.question import Answer, Question
from clustersim.validation.verdict import CaseVerdict, Compared, Skipped, Verdict, worst_first


def validate(
    names: Sequence[str] = (), on_progress: OnProgress = lambda share, what: None, workers: int = 0
) -> Verdict:
    """Simulate every point of these cases (names or folders; by default all shipped ones) and compare.

    All mistakes in the input are raised at once. Failures in the simulation are listed under `skipped`, and all other
    points are compared. `workers` is the number of processes; 0 means one per core.
    """
    cases = load_cases(names)
    questions = list(dict.fromkeys(case.question(row) for case in cases for row in case.rows))
    answers = dict(zip(questions, answer_all(questions, on_progress, workers), strict=True))
    asked = [(row, answers[case.question(row)]) for case in cases for row in case.rows]
    mistakes = list(dict.fromkeys(mistake for row, found in asked for mistake in mistakes_of(row, found)))
    if mistakes:
        raise InputError(mistakes)
    verdicts, skipped = [], []
    for case in cases:
        points, failed = _compare(case, answers)
        verdicts.append(CaseVerdict(case.name, case.title, points, case.is_chosen_after))
        skipped += failed
    return Verdict(__version__, worst_first(verdicts), tuple(skipped))


def mistakes_of(row: TableRow, found: Answer) -> Iterator[Mistake]:
    """Yield the mistakes in the input of a row, each with the file, line and column to correct."""
    for mistake in found.mistakes:
        in_a_file = mistake.line is not None and mistake.file != "--set"
        yield mistake if in_a_file else _in_row(row, mistake)
    if found.document is not None:
        try:
            simulated(found.document, row.metric, row.unit)
        except InputError as error:
            yield from (_in_row(row, replace(mistake, key="metric")) for mistake in error.mistakes)


def _in_row(row: TableRow, mistake: Mistake) -> Mistake:
    message = mistake.message if mistake.file in (None, "--set") else f"{mistake.file}: {mistake.message}"
    return row.mistake(message, mistake.key, mistake.got, mistake.allowed)


def _compare(case: Case, answers: Mapping[Question, Answer]) -> tuple[tuple[Compared, ...], list[Skipped]]:
    points, skipped = [], []
    for row in case.rows:
        found = answers[case.question(row)]
        if found.document is None:
            which = " ".join([f"{row.scenario}.yaml", *row.overrides])
            skipped.append(Skipped(case.name, f"{which}: {found.failure}"))
            continue
        points.append(compared(row, found))
    return tuple(points), list(dict.fromkeys(skipped))


def compared(row: Measured, found: Answer) -> Compared:
    """Return a figure beside its simulated value, which `found` must have."""
    assert found.document is not None
    value = simulated(found.document, row.metric, row.unit)
    num_gpus = int(found.document["num_gpus"])
    return beside(row, value, num_gpus, found.features or {}, found.group, found.method)


def beside(
    row: Measured, value: float, num_gpus: int, features: Mapping[str, Any], group: str, method: str
) -> Compared:
    """Return a figure beside a forecast of it, `value`, in the figure's own unit."""
    return Compared(
        metric=row.metric,
        num_gpus=num_gpus,
        role=row.role,
        simulated=value,
        measured=row.value,
        unit=row.unit,
        error=value / row.value - 1.0,
        provenance=row.provenance,
        where=row.where,
        label=label_of(row),
        note=row.note,
        scenario=row.scenario,
        settings=dict(row.settings),
        line=row.line,
        features=features,
        group=group,
        method=method,
    )


def label_of(row: TableRow) -> str:
    """Return what distinguishes a point from others of its case, except the number of GPUs."""
    name = "" if row.scenario == "scenario" else row.scenario
    settings = (f"{key.rpartition('.')[2]} {value}" for key, value in row.settings if key != "num_gpus")
    return ", ".join(filter(None, [name, row.label] if row.label else [name, *settings]))
