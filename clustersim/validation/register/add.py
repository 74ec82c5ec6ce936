"""Writes the first forecasts of an entry, before its figures are known."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake, SimulationError
from clustersim.reading.files import find_file
from clustersim.results.files import to_json, write_atomically
from clustersim.scenario import Point, Scenario, load_scenario
from clustersim.scenario.files import read_scenario
from clustersim.validation.measured import TableRow, read_points
from clustersim.validation.metrics import simulated
from clustersim.validation.pool import OnProgress, answer_all
from clustersim.validation.question import Answer, Question
from clustersim.validation.register.code import code_state, file_sha256
from clustersim.validation.register.entry import (
    MEASURED_FILE,
    POINTS_FILE,
    SOURCE_FILE,
    point_key,
    read_source,
)
from clustersim.validation.register.first import (
    FIRST_FILE,
    FirstForecast,
    FirstForecasts,
    already_forecast,
    write_first,
)
from clustersim.validation.register.migrate import now
from clustersim.validation.register.named_files import named_files
from clustersim.validation.validate import mistakes_of

OWN_REGISTER = Path("register")
"""The folder of a user's own register, relative to the working directory."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")

_TEMPLATE = """\
# {title}

Source: {name}

What is known and what is assumed, stated before any figure is known: hardware, program and versions, settings.
"""


@dataclass(frozen=True)
class NewEntry:
    """An entry that was added: its folder and what was written to its `forecast.json`."""

    folder: Path
    first: FirstForecasts


@dataclass(frozen=True)
class _Plan:
    """What an entry will hold: `files` are its files by name, each where it lies now; `made` are texts to write."""

    folder: Path
    rows: tuple[TableRow, ...]
    questions: tuple[Question, ...]
    files: Mapping[str, Path]
    made: Mapping[str, str]

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file that the forecasts depend on, by name."""
        made = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.made.items()}
        found = {name: file_sha256(path) for name, path in self.files.items()} | made
        return {name: found[name] for name in sorted(found) if name != SOURCE_FILE}


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
    plan = _plan(path, folder, points)
    before = plan.hashes()
    answers = answer_all(plan.questions, on_progress, workers)
    forecasts = _forecasts(plan, answers)
    if plan.hashes() != before:
        raise InputError(f"a file of {folder.name} changed while it was simulated; run the command again")
    for file, text in plan.made.items():
        write_atomically(folder / file, text)
    for file, place in plan.files.items():
        if place.resolve() != (folder / file).resolve():
            write_atomically(folder / file, place.read_bytes())
    _, source, _ = read_source(folder / SOURCE_FILE)
    entry = folder.resolve().name
    first = FirstForecasts(entry, source or entry, now(), code_state(), before, forecasts)
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


def _plan(path: Path, folder: Path, table: Path | None) -> _Plan:
    """Return what the entry will hold, or raise an error with the mistakes in the scenario and its points."""
    _check_published(path)
    main = path.stem if path.parent.resolve() == folder.resolve() else "scenario"
    own_table = folder / POINTS_FILE
    table = table or (own_table if own_table.is_file() else None)
    rows = _swept(path, main) if table is None else read_points(table)
    _check_repeated(rows)
    scenarios = {row.scenario: path if row.scenario == main else path.parent / f"{row.scenario}.yaml" for row in rows}
    _check_scenarios(scenarios, rows)
    files: dict[str, Path] = {}
    for name, found in scenarios.items():
        for file, place in {f"{name}.yaml": found, **named_files(found, path.parent)}.items():
            if files.setdefault(file, place).resolve() != place.resolve():
                message = f"{files[file]} and {place} would both be {file} of the entry; rename one"
                raise InputError(message, got=file)
    made = {}
    if table is None:
        made[POINTS_FILE] = _table_text(rows)
    else:
        files[POINTS_FILE] = table
    if not (folder / SOURCE_FILE).is_file():
        made[SOURCE_FILE] = _TEMPLATE.format(title=folder.name, name=folder.name)
    _check_overwritten(folder, files)
    questions = tuple(Question(scenarios[row.scenario], tuple(row.overrides)) for row in rows)
    return _Plan(folder, rows, questions, files, made)


def _swept(path: Path, name: str) -> tuple[TableRow, ...]:
    """Return a row for every point of a scenario's sweep."""
    scenario = load_scenario(path)
    texts = {key: _texts_of_axis(scenario, key) for key in scenario.axes}
    rows = []
    for axes, point in scenario.points():
        row = TableRow(
            scenario=name,
            settings=tuple((key, texts[key][str(label)]) for key, label in axes.items()),
            metric="samples_per_s",
            unit="samples/s",
            label=", ".join(f"{key}={label}" for key, label in axes.items()),
            note="",
            file=str(path),
            line=1,
            columns=(),
        )
        if not _is_point(path, row, point):
            message = f"an axis of files ({', '.join(axes)}) has no settings; write a scenario for each, and --points"
            raise InputError(Mistake(message, file=str(path), got=", ".join(axes)))
        rows.append(row)
    return tuple(rows)


def _texts_of_axis(scenario: Scenario, key: str) -> dict[str, str]:
    """Return the text for `--set` of each label of an axis."""
    value: Any = scenario.raw
    for part in key.split("."):
        if isinstance(value, list):
            value = value[int(part)] if part.isdecimal() and int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    labels = scenario.axes[key]
    values = value if isinstance(value, list) and len(value) == len(labels) else labels
    texts = [value if isinstance(value, str) else to_json(value) for value in values]
    return {str(label): text for label, text in zip(labels, texts, strict=True)}


def _is_point(path: Path, row: TableRow, point: Point) -> bool:
    """Return whether the settings of a row make the scenario this one point."""
    try:
        found = load_scenario(path, row.overrides).points()
    except InputError:
        return False
    return len(found) == 1 and found[0].point == point


def _table_text(rows: Sequence[TableRow]) -> str:
    """Return the table of points that `read_points` reads as these rows."""
    keys = list(dict.fromkeys(key for row in rows for key, _ in row.settings))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["scenario", *keys, "metric", "unit", "label"])
    for row in rows:
        settings = dict(row.settings)
        writer.writerow([row.scenario, *(settings.get(key, "") for key in keys), row.metric, row.unit, row.label])
    return stream.getvalue()


def _check_repeated(rows: Sequence[TableRow]) -> None:
    seen: dict[object, TableRow] = {}
    mistakes = []
    for row in rows:
        earlier = seen.setdefault(point_key(row), row)
        if earlier is not row:
            mistakes.append(row.mistake(f"line {earlier.line} has this point already", "metric", row.metric))
    if mistakes:
        raise InputError(mistakes)


def _check_scenarios(scenarios: Mapping[str, Path], rows: Sequence[TableRow]) -> None:
    """Refuse scenarios that do not exist, and those with measured figures."""
    mistakes = []
    for name, path in scenarios.items():
        row = next(row for row in rows if row.scenario == name)
        if not path.is_file():
            mistakes.append(row.mistake(f"there is no file '{path}'", "scenario", name))
    if mistakes:
        raise InputError(mistakes)
    for path in scenarios.values():
        _check_published(path)


def _check_published(path: Path) -> None:
    """Refuse a scenario with measured figures in it."""
    published = read_scenario(path)[0].children.get("published")
    if published is not None:
        message = "these figures are known already, and a forecast is written before them; leave the key out"
        raise InputError(published.place.mistake(message, "published", allowed="a scenario without `published`"))


def _check_overwritten(folder: Path, files: Mapping[str, Path]) -> None:
    """Refuse to replace a file of the entry's folder by another one."""
    mistakes = [
        Mistake(f"the entry has another file of this name than {place}; remove one of them", file=str(folder / name))
        for name, place in files.items()
        if (folder / name).is_file() and (folder / name).read_bytes() != place.read_bytes()
    ]
    if mistakes:
        raise InputError(mistakes)


def _forecasts(plan: _Plan, answers: Sequence[Answer]) -> tuple[FirstForecast, ...]:
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
