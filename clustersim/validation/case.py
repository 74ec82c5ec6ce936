"""A case: a folder with measured figures (`measured.csv`), their source (`source.md`), and scenarios for forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clustersim.data import data_folder
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.validation.measured import Measured, read_measured
from clustersim.validation.question import Question

CHOSEN_AFTER = "**Chosen after errors had been seen.**"
CHOSEN_BEFORE = "**Chosen before errors had been seen.**"
"""How a case was set up: its `source.md` has one of these two lines, and what was chosen."""


@dataclass(frozen=True)
class Case:
    """One source of figures: the name of its folder, its title, and a row for each figure.

    `is_chosen_after` is true if something in the case, or a mechanism that was added to the simulator for it, was
    chosen after its errors had been seen; its `source.md` states that.
    """

    name: str
    title: str
    folder: Path
    rows: tuple[Measured, ...]
    is_chosen_after: bool = False

    def question(self, row: Measured) -> Question:
        """Return the question of a row to the simulator."""
        return Question(self.folder / f"{row.scenario}.yaml", tuple(row.overrides))


def shipped_cases() -> dict[str, Path]:
    """Return the folders of the shipped cases by name, in alphabetical order."""
    return {path.parent.name: path.parent for path in sorted(data_folder("validate").glob("*/measured.csv"))}


def own_cases() -> dict[str, Path]:
    """Return the folders of cases that we measured ourselves, by name.

    They are loaded by name only: their figures were not published by others, and no overall score includes them.
    """
    return {
        path.parent.parent.name: path.parent for path in sorted(data_folder("validate").glob("*/kept/measured.csv"))
    }


def load_cases(names: Sequence[str] = ()) -> tuple[Case, ...]:
    """Return the cases of these names or folders; without names, all shipped cases that others measured.

    Every mistake of every case is raised at once.
    """
    shipped, own = shipped_cases(), own_cases()
    known = shipped | own
    found: list[Case] = []
    mistakes: list[Mistake] = []
    for name in dict.fromkeys(names or shipped):
        try:
            case = load_case(known[name] if name in known else _folder(name, known))
            found.append(replace(case, name=name) if name in own else case)
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(mistakes)
    return tuple(found)


def load_case(folder: Path) -> Case:
    """Read one case; the scenario file of every row must exist, and `source.md` must have a heading."""
    rows = read_measured(folder / "measured.csv")
    mistakes = []
    for name in dict.fromkeys(row.scenario for row in rows):
        path = folder / f"{name}.yaml"
        if not path.is_file():
            row = next(row for row in rows if row.scenario == name)
            message = f"there is no file '{path.name}' beside the table"
            known = ", ".join(sorted(found.stem for found in folder.glob("*.yaml"))) or "none"
            mistakes.append(row.mistake(message, "scenario", name, known))
    mistakes += _repeated(rows)
    source = _source(folder / "source.md")
    if isinstance(source, Mistake):
        raise InputError([*mistakes, source])
    if mistakes:
        raise InputError(mistakes)
    title, is_chosen_after = source
    return Case(folder.resolve().name, title, folder, rows, is_chosen_after)


def _folder(name: str, shipped: dict[str, Path]) -> Path:
    path = Path(name).expanduser()
    if (path / "measured.csv").is_file():
        return path
    if "/" in name or path.is_dir():
        raise InputError(
            f"'{name}' is not a case: it has no measured.csv", got=name, allowed="a folder with a measured.csv"
        )
    raise unknown_name("case", name, shipped)


def _source(path: Path) -> tuple[str, bool] | Mistake:
    """Return the first heading of a case's `source.md`, and whether it states a choice after errors were seen."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return Mistake("a case needs the source of its figures; this file is missing or not text", file=str(path))
    for line in text.splitlines():
        if line.startswith("# "):
            return line[2:].strip(), CHOSEN_AFTER in text
    return Mistake("expected a first heading such as '# FireCaffe on Titan'", file=str(path), line=1)


def _repeated(rows: Sequence[Measured]) -> list[Mistake]:
    """Return a mistake for each row with the point, the metric and the value of an earlier row."""
    seen: dict[tuple[object, ...], Measured] = {}
    mistakes = []
    for row in rows:
        key = row.scenario, row.settings, row.metric, row.where, row.label, row.value
        if key in seen:
            message = f"line {seen[key].line} has this figure already"
            mistakes.append(row.mistake(message, "metric", row.metric))
        seen.setdefault(key, row)
    return mistakes
