"""What a search has simulated, in a file: a search that was interrupted goes on from there.

Each process that simulates appends a line as soon as it has an answer, so that whatever ends the search, what was
finished is kept; a line that was cut off is not read. The first line says which question it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError
from clustersim.planner.material import Material
from clustersim.planner.space import Choice

SCHEMA = "clustersim.plan-journal/1"
_NOT_ASKED = {"num_gpus", "batch", "parallelism", "memory_check"}
"""Keys of a point that each layout has its own of."""


@dataclass(frozen=True)
class Journal:
    """A file of answers, and those that were in it when the search began, by the choice."""

    path: Path
    answers: Mapping[Hashable, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path, material: Material) -> Journal:
        """Return the journal of a question, begun if there is none; raise InputError where it is another's."""
        path, question = Path(path), _digest(material)
        if not path.exists():
            try:
                path.write_text(json.dumps({"schema": SCHEMA, "question": question}) + "\n")
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror}", got=str(path)) from None
            return cls(path)
        try:
            lines = [_read(line) for line in path.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}", got=str(path)) from None
        if not lines or lines[0].get("schema") != SCHEMA or lines[0].get("question") != question:
            raise InputError(
                f"{path} does not have layouts of this scenario, with these sheets, in this version; name another file",
                got=str(path),
                allowed="a file that does not exist, or that the same question has begun",
            )
        return cls(path, {each["choice"]: each for each in lines[1:] if "choice" in each})

    def known(self, choice: Choice) -> Mapping[str, Any] | None:
        """Return what was simulated of a choice; None where nothing was."""
        return self.answers.get(key_of(choice))


def note(path: Path, choice: Choice, answer: Mapping[str, Any]) -> None:
    """Append what came of a choice, in one piece whoever else appends.

    A line that somebody was cut off in ends there, and the next one begins behind it.
    """
    line = json.dumps({"choice": key_of(choice), **answer}) + "\n"
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else "\n" + line
        os.write(file.fileno(), line.encode())


def key_of(choice: Choice) -> str:
    """Return a choice as text, the same for the same layout."""
    layout = choice.layout.model_dump(exclude_defaults=True)
    return json.dumps([choice.num_gpus, choice.batch, layout, choice.exchange], sort_keys=True)


def _read(line: str) -> dict[str, Any]:
    """Return what a line says, nothing where it was cut off."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(material: Material) -> str:
    """Return what two questions have in common whose layouts take the same times, whatever files have these."""
    setup, links = material.setup, material.setup.topology.links
    work = setup.workload(material.kind, 1)
    asked = material.point.model_dump_json(exclude=_NOT_ASKED), work, setup.transport, __version__
    digest = hashlib.sha256(repr(asked).encode())
    for column in (links.src, links.dst, links.bytes_per_s, links.latency_s):
        digest.update(column.tobytes())
    return digest.hexdigest()
