"""Journal: a file of the simulated layouts of a search, from which an interrupted search continues.

Each worker process appends a line when it has a result, so that finished results survive an interruption; truncated
lines are ignored. The first line identifies the request.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.space import Choice
from clustersim.reading import read_text
from clustersim.results import BREAKDOWN

SCHEMA = "clustersim.plan-journal/1"
_MOST_BYTES = 256 << 20
_LAYOUT_KEYS = {"num_gpus", "batch", "parallelism", "memory_check"}
"""Keys of a point that differ between layouts."""

_OTHER_KEYS = {"prices", "train_tokens", "epochs", "dataset_size"}
"""Keys of a point on which the time of a layout does not depend."""


@dataclass(frozen=True)
class Journal:
    """A file of results, and those that were in it when the search began, by choice."""

    path: Path
    answers: Mapping[Hashable, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path, costs: LayoutCosts) -> Journal:
        """Return the journal of a request, created if needed; raise InputError if it belongs to another request."""
        path, request = Path(path), _digest(costs)
        if not path.exists():
            try:
                path.write_bytes((json.dumps({"schema": SCHEMA, "question": request}) + "\n").encode())
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror}", got=str(path)) from None
            return cls(path)
        lines = [_read(line) for line in read_text(path, _MOST_BYTES).splitlines()]
        if not lines or lines[0].get("schema") != SCHEMA or lines[0].get("question") != request:
            raise InputError(
                f"{path} is of another scenario, other sheets or another version; name another file",
                got=str(path),
                allowed="a new file, or a file of the same request",
            )
        results = {number: _checked(each, path, number) for number, each in enumerate(lines[1:], 2) if each}
        return cls(path, {each["choice"]: each for each in results.values()})

    def known(self, choice: Choice) -> Mapping[str, Any] | None:
        """Return the results of a choice; None if it was not simulated."""
        return self.answers.get(key_of(choice))


def note(path: Path, choice: Choice, answer: Mapping[str, Any]) -> None:
    """Append the results of a choice in one write, since other processes append too.

    A truncated last line is ended first.
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
    """Return the data of a line, empty if it is truncated."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _checked(answer: Mapping[str, Any], path: Path, line: int) -> Mapping[str, Any]:
    """Return the results of a choice; raise InputError if they cannot be those of a simulation."""
    breakdown: Any = answer.get("breakdown_s")
    figures: list[Any] = [answer.get("iteration_s"), answer.get("samples_per_s")]
    is_known = isinstance(answer.get("choice"), str)
    is_result = isinstance(breakdown, dict) and set(breakdown) == set(BREAKDOWN)
    is_result = is_result and all(_is_number(each) for each in (*figures, *breakdown.values()))
    is_result = is_result and min(figures) > 0
    if not is_known or not (isinstance(answer.get("failed"), str) or is_result):
        message = "this line is not the result of a layout; delete it, and the layout is simulated again"
        got = json.dumps(answer)[:60]
        raise InputError(Mistake(message, file=str(path), line=line, got=got, allowed="a line that `plan` wrote"))
    return answer


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _digest(costs: LayoutCosts) -> str:
    """Return a digest that is equal for requests whose layouts have the same times, independent of file names."""
    setup, links = costs.setup, costs.setup.topology.links
    work = setup.workload(costs.kind, 1)
    request = costs.point.model_dump_json(exclude=_LAYOUT_KEYS | _OTHER_KEYS), work, setup.transport, __version__
    digest = hashlib.sha256(repr(request).encode())
    for column in (links.src, links.dst, links.bytes_per_s, links.latency_s):
        digest.update(column.tobytes())
    return digest.hexdigest()
