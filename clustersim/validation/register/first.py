"""`forecast.json`: the first forecasts of an entry, written once, with date, code and hashes of the files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.reading.files import read_text
from clustersim.results.files import to_json, write_atomically
from clustersim.validation.register.code import CodeState

FIRST_SCHEMA = "clustersim.first-forecast/1"
FIRST_FILE = "forecast.json"


@dataclass(frozen=True)
class FirstForecast:
    """The first forecast of one point, in the order of `points.csv`; `value` is in `unit`.

    `band` is the one of the run's document, if it has one. `features` describe the kind of training. Points of one
    `group` differ only in the synchronization method, whose hash is `method`.
    """

    scenario: str
    settings: Mapping[str, str]
    metric: str
    value: float
    unit: str
    num_gpus: int
    label: str = ""
    band: Any = None
    features: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    method: str = ""


@dataclass(frozen=True)
class Migration:
    """A change of an entry's files that leaves their meaning, such as renamed keys; `files` has the new hashes."""

    date: str
    version: str
    commit: str | None
    reason: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class FirstForecasts:
    """What `forecast.json` holds. `files` has the SHA-256 of each file of the entry that the forecasts depend on."""

    name: str
    source: str
    date: str
    code: CodeState
    files: Mapping[str, str]
    forecasts: tuple[FirstForecast, ...]
    migrations: tuple[Migration, ...] = ()

    @property
    def present_files(self) -> Mapping[str, str]:
        """The hashes that the files must have now: those of the last migration, or else the first ones."""
        return self.migrations[-1].files if self.migrations else self.files

    def with_migration(self, migration: Migration) -> FirstForecasts:
        """Return the same first forecasts with one more migration noted."""
        return replace(self, migrations=(*self.migrations, migration))

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.first-forecast/1` document."""
        return {
            "schema": FIRST_SCHEMA,
            "name": self.name,
            "source": self.source,
            "date": self.date,
            **asdict(self.code),
            "files": dict(self.files),
            "migrations": [asdict(migration) for migration in self.migrations],
            "forecasts": [asdict(forecast) for forecast in self.forecasts],
        }


def read_first(path: Path) -> FirstForecasts:
    """Return the first forecasts in a file."""
    try:
        document = json.loads(read_text(path))
        if document.get("schema") != FIRST_SCHEMA:
            raise ValueError(f"its schema is {document.get('schema')!r}")
        return FirstForecasts(
            name=str(document["name"]),
            source=str(document["source"]),
            date=str(document["date"]),
            code=CodeState(**{name: document[name] for name in CodeState.__dataclass_fields__}),
            files=document["files"],
            forecasts=tuple(FirstForecast(**each) for each in document["forecasts"]),
            migrations=tuple(Migration(**each) for each in document["migrations"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        message = f"not a file of `clustersim register add`: {error}"
        raise InputError(Mistake(message, file=str(path), allowed=FIRST_SCHEMA)) from None


def write_first(first: FirstForecasts, path: Path) -> Path:
    """Write first forecasts whole, or raise an error and leave the file as it is if there is one already."""
    hidden = write_atomically(path.with_name(f".{path.name}.{os.getpid()}"), _text(first))
    try:
        os.link(hidden, path)
    except FileExistsError:
        raise already_forecast(path) from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None
    finally:
        hidden.unlink()
    return path


def write_noted(first: FirstForecasts, path: Path) -> Path:
    """Write first forecasts again with a further migration; everything else must be as it is in the file."""
    assert {**read_first(path).to_dict(), "migrations": None} == {**first.to_dict(), "migrations": None}
    return write_atomically(path, _text(first))


def already_forecast(path: Path) -> InputError:
    """Return the error for an entry that has its first forecasts."""
    message = "this entry has its first forecasts, which are never rewritten; make a new entry with another --name"
    return InputError(Mistake(message, file=str(path), got=FIRST_FILE, allowed=f"a folder without {FIRST_FILE}"))


def _text(first: FirstForecasts) -> str:
    return to_json(first.to_dict(), indent=1) + "\n"
