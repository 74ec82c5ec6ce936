"""What a new entry will hold: its scenarios, the files that these name, its points; and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.results.files import write_atomically
from clustersim.scenario.files import read_scenario
from clustersim.validation.measured import TableRow, read_points
from clustersim.validation.question import Question
from clustersim.validation.register.code import file_sha256
from clustersim.validation.register.entry import POINTS_FILE, SOURCE_FILE, point_key
from clustersim.validation.register.named_files import named_files
from clustersim.validation.register.swept import points_text, swept_points

_TEMPLATE = """\
# {title}

Source: {name}

What is known and what is assumed, stated before any figure is known: hardware, program and versions, settings.
"""


@dataclass(frozen=True)
class EntryPlan:
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

    def write(self) -> None:
        """Write the files of the entry, except its forecasts."""
        for name, text in self.made.items():
            write_atomically(self.folder / name, text)
        for name, path in self.files.items():
            if path.resolve() != (self.folder / name).resolve():
                write_atomically(self.folder / name, path.read_bytes())


def plan_entry(path: Path, folder: Path, table: Path | None) -> EntryPlan:
    """Return what the entry will hold, or raise an error with the mistakes in the scenario and its points."""
    _check_published(path)
    main = path.stem if path.parent.resolve() == folder.resolve() else "scenario"
    own_table = folder / POINTS_FILE
    table = table or (own_table if own_table.is_file() else None)
    rows = swept_points(path, main) if table is None else read_points(table)
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
        made[POINTS_FILE] = points_text(rows)
    else:
        files[POINTS_FILE] = table
    if not (folder / SOURCE_FILE).is_file():
        made[SOURCE_FILE] = _TEMPLATE.format(title=folder.name, name=folder.name)
    _check_overwritten(folder, files)
    questions = tuple(Question(scenarios[row.scenario], tuple(row.overrides)) for row in rows)
    return EntryPlan(folder, rows, questions, files, made)


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
