"""An entry of the register: its folder with scenarios, points, first forecasts, and the figures once they are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from clustersim.data import data_folder
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.reading.files import read_text
from clustersim.reading.yaml_reader import read_yaml
from clustersim.results.files import to_json
from clustersim.validation.measured import Measured, TableRow, read_measured, read_points
from clustersim.validation.question import Question
from clustersim.validation.register.code import file_sha256
from clustersim.validation.register.first import FIRST_FILE, FirstForecast, FirstForecasts, read_first

MEASURED_FILE = "measured.csv"
POINTS_FILE = "points.csv"
SOURCE_FILE = "source.md"

_LINE_OF_SOURCE = re.compile(r"^(Source|Published): *(.+?) *$", re.MULTILINE)

PointKey = tuple[str, tuple[tuple[str, str], ...], str]
"""The scenario file of a point, its settings in alphabetical order, and the metric."""


@dataclass(frozen=True)
class RegisterEntry:
    """One entry. `rows` are its figures; none while they are not known.

    `published` is the date of the source as its `source.md` gives it, such as 2025-03; empty if it gives none. A table
    over all entries counts entries of one source together.
    """

    name: str
    title: str
    published: str
    folder: Path
    first: FirstForecasts
    points: tuple[TableRow, ...]
    rows: tuple[Measured, ...]

    @property
    def source(self) -> str:
        """The short name of the source of the figures."""
        return self.first.source

    def question(self, row: TableRow) -> Question:
        """Return the question of a row to the simulator."""
        return Question(self.folder / f"{row.scenario}.yaml", tuple(row.overrides))

    def first_of(self, row: Measured) -> FirstForecast:
        """Return the first forecast of a figure."""
        keys = [point_key(point) for point in self.points]
        return self.first.forecasts[keys.index(point_key(row))]


def register_folder() -> Path:
    """Return the folder of the shipped register."""
    return data_folder("validate") / "register"


def shipped_entries() -> dict[str, Path]:
    """Return the folders of the shipped entries by name, in alphabetical order."""
    return _entries_in(register_folder())


def load_entries(names: Sequence[str] = ()) -> tuple[RegisterEntry, ...]:
    """Return the entries of these names or folders; without names, all shipped entries.

    A folder is an entry or a register, which is a folder of entries. Every mistake of every entry is raised at once.
    """
    shipped = shipped_entries()
    found: list[RegisterEntry] = []
    mistakes: list[Mistake] = []
    for folder in dict.fromkeys(folder for name in names or shipped for folder in _folders(name, shipped)):
        try:
            found.append(load_entry(folder))
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(mistakes)
    return tuple(found)


def load_entry(folder: Path, first: FirstForecasts | None = None) -> RegisterEntry:
    """Read one entry. Its files must be those of the first forecast, and every figure must have a first forecast.

    `first` are the first forecasts, if they are not to be read from the folder.
    """
    first = first or read_first(folder / FIRST_FILE)
    check_files(folder, first)
    points = read_points(folder / POINTS_FILE)
    measured = folder / MEASURED_FILE
    rows = read_measured(measured) if measured.is_file() else ()
    if len(points) != len(first.forecasts):
        message = f"{len(points)} points, and {FIRST_FILE} has {len(first.forecasts)} first forecasts"
        raise InputError(Mistake(message, file=str(folder / POINTS_FILE), got=str(len(points))))
    known = {point_key(point) for point in points}
    missing = [_never_forecast(row) for row in rows if point_key(row) not in known]
    if missing:
        raise InputError(missing)
    title, _, published = read_source(folder / SOURCE_FILE)
    return RegisterEntry(folder.resolve().name, title, published, folder, first, points, rows)


def entry_folder(name: str) -> Path:
    """Return the folder of one entry, by its name or its folder."""
    found = list(_folders(name, shipped_entries()))
    if len(found) != 1:
        raise InputError(f"'{name}' holds {len(found)} entries; name one", got=name, allowed="one entry")
    return found[0]


def check_files(folder: Path, first: FirstForecasts) -> None:
    """Raise an error for each file that is not the one of the first forecast or of the last noted migration."""
    mistakes = []
    for name, expected in first.present_files.items():
        path = folder / name
        found = file_sha256(path) if path.is_file() else None
        if found != expected:
            message = (
                "the file is missing" if found is None else "this is not the file of the first forecast"
            ) + "; restore it. After `clustersim migrate` alone: `clustersim register note-migration`"
            mistakes.append(Mistake(message, file=str(path), got=found, allowed=expected))
    if mistakes:
        raise InputError(mistakes)


def read_source(path: Path) -> tuple[str, str, str]:
    """Return the first heading of a `source.md`, and what it has after `Source:` and `Published:` at a line's start."""
    text = read_text(path)
    heading = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), None)
    if not heading:
        raise InputError(
            Mistake("expected a first heading such as '# Llama 3 8B on a DGX H100'", file=str(path), line=1)
        )
    stated = dict(_LINE_OF_SOURCE.findall(text))
    return heading, stated.get("Source", ""), stated.get("Published", "")


def point_key(row: TableRow) -> PointKey:
    """Return what distinguishes a point from the others of its entry, in whatever order its columns are."""
    settings = sorted((key, _canonical(value)) for key, value in row.settings)
    return row.scenario, tuple(settings), row.metric


@lru_cache(maxsize=4096)
def _canonical(value: str) -> str:
    """Return a value of `--set` as JSON, so that `{tensor: 2}` and `{"tensor": 2}` are equal."""
    try:
        return to_json(read_yaml(value, "--set", positions=False)[0].plain())
    except InputError:  # reported when the point is simulated
        return value


def _entries_in(folder: Path) -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{FIRST_FILE}"))}


def _folders(name: str, shipped: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the folder of an entry, or of every entry of a register."""
    path = Path(name).expanduser()
    if name in shipped:
        yield shipped[name]
    elif (path / FIRST_FILE).is_file():
        yield path
    elif inner := _entries_in(path) if path.is_dir() else {}:
        yield from inner.values()
    elif "/" in name or path.is_dir():
        message = f"'{name}' is neither an entry nor a register: it has no {FIRST_FILE}, and no folder in it has one"
        raise InputError(message, got=name, allowed=f"a folder with a {FIRST_FILE}, or a folder of such folders")
    else:
        raise unknown_name("entry of the register", name, shipped)


def _never_forecast(row: Measured) -> Mistake:
    settings = " ".join([f"{row.scenario}.yaml", *row.overrides, row.metric])
    message = f"no forecast of this point was written before its figure was known ({settings})"
    return row.mistake(message, "metric", row.metric, f"a point of {POINTS_FILE}")
