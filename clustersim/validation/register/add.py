"""Writes the first forecasts of an entry, before its figures are known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim.errors import InputError, Mistake, SimulationError
from clustersim.reading.files import find_file
from clustersim.validation.measured import TableRow
from clustersim.validation.metrics import simulated
from clustersim.validation.pool import OnProgress, answer_all
from clustersim.validation.question import Answer
from clustersim.validation.register.code import code_state
from clustersim.validation.register.entry import MEASURED_FILE, SOURCE_FILE, read_source
from clustersim.validation.register.first import (
    FIRST_FILE,
    FirstForecast,
    FirstForecasts,
    already_forecast,
    write_first,
)
from clustersim.validation.register.migrate import now
from clustersim.validation.register.plan import EntryPlan, plan_entry
from clustersim.validation.validate import mistakes_of

OWN_REGISTER = Path("register")
"""The folder of a user's own register, relative to the working directory."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class NewEntry:
    """An entry that was added: its folder and what was written to its `forecast.json`."""

    folder: Path
    first: FirstForecasts


def add_entry(
    scenario: str,
    points: Path | None = None,
    name: str | None = None,
    output: Path | None = None,
    on_progress: OnProgress = lambda share, what: None,
    workers: int = 0,
) -> NewEntry:
    """Forecast the points of a scenario and write them down as a new entry of a register.

    The points are those of a table (`points`, or `points.csv` in the entry's folder), or of the scenario's sweep. The
    entry is the scenario's own folder if that has a `source.md` and neither `name` nor `output` is given; otherwise it
    is `output`/`name`, and the scenario is copied there with the files that it names. Nothing is written if there is a
    mistake, if a simulation fails, if the entry has its forecasts already, or if it has measured figures.
    """
    path = find_file(scenario, "scenarios", "scenario")
    folder = _folder(path, name, output)
    _check_folder(folder)
    stated = folder / SOURCE_FILE
    source = read_source(stated)[1] if stated.is_file() else ""
    plan = plan_entry(path, folder, points)
    code, before = code_state(), plan.hashes()
    forecasts = _forecasts(plan, answer_all(plan.questions, on_progress, workers))
    if plan.hashes() != before:
        raise InputError(f"a file of {folder.name} changed while it was simulated; run the command again")
    plan.write()
    entry = folder.resolve().name
    first = FirstForecasts(entry, source or entry, now(), code, before, forecasts)
    write_first(first, folder / FIRST_FILE)
    return NewEntry(folder, first)


def _folder(path: Path, name: str | None, output: Path | None) -> Path:
    if name is None and output is None and (path.parent / SOURCE_FILE).is_file():
        return path.parent
    chosen = path.stem if name is None else name
    if not _NAME.fullmatch(chosen):
        allowed = "lower-case letters, digits, '-', '_' and '.'"
        raise InputError(f"the name of an entry has {allowed} (got '{chosen}'); give it with --name", got=chosen)
    return (output or OWN_REGISTER) / chosen


def _check_folder(folder: Path) -> None:
    if (folder / FIRST_FILE).exists():
        raise already_forecast(folder / FIRST_FILE)
    if (folder / MEASURED_FILE).exists():
        message = "the figures of this entry are known already; a forecast is written before them"
        raise InputError(
            Mistake(message, file=str(folder / MEASURED_FILE), got=MEASURED_FILE, allowed="a folder without figures")
        )


def _forecasts(plan: EntryPlan, answers: Sequence[Answer]) -> tuple[FirstForecast, ...]:
    """Return the forecasts of the rows, or raise every mistake in the input, or else the first failure."""
    pairs = list(zip(plan.rows, answers, strict=True))
    mistakes = [mistake for row, answer in pairs for mistake in mistakes_of(row, answer)]
    if mistakes:
        raise InputError(dict.fromkeys(mistakes))
    for row, answer in pairs:
        if answer.document is None:
            settings = " ".join([f"{row.scenario}.yaml", *row.overrides])
            raise SimulationError(f"{settings}: {answer.failure}; nothing was written")
    return tuple(_forecast(row, answer) for row, answer in pairs)


def _forecast(row: TableRow, answer: Answer) -> FirstForecast:
    assert answer.document is not None
    return FirstForecast(
        scenario=row.scenario,
        settings=dict(row.settings),
        metric=row.metric,
        value=simulated(answer.document, row.metric, row.unit),
        unit=row.unit,
        num_gpus=int(answer.document["num_gpus"]),
        label=row.label,
        band=answer.document.get("band"),
        features=answer.features or {},
        group=_digest(answer.group),
        method=_digest(answer.method),
    )


def _digest(text: str) -> str:
    """Return a short hash that tells texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
