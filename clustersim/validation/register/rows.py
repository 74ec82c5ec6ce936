"""The scored figures of a register as plain rows, from which bands of forecasts are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.validation.question import Question
from clustersim.validation.register.score import RegisterScore


@dataclass(frozen=True)
class RegisterRow:
    """A scored figure with its first forecast and that of the present version (None if it was not asked, or failed).

    All three values are in `unit`. `question` is the point of the scenario. `date` is when the first forecast was made,
    `published` the date of the source if it is stated. `features` are those of the present version if there are some,
    else those of the first forecast; `band` is the one stated with the first forecast.
    """

    source: str
    entry: str
    question: Question
    metric: str
    unit: str
    num_gpus: int
    first: float
    present: float | None
    measured: float
    date: str
    published: str
    version: str
    features: Mapping[str, Any]
    band: Any


def register_rows(scored: RegisterScore) -> list[RegisterRow]:
    """Return a row for every scored figure, in alphabetical order of entries and in the order of their tables."""
    rows = []
    for score in sorted(scored.entries, key=lambda each: each.entry.name):
        entry = score.entry
        by_line = {row.line: row for row in entry.rows}
        for first, present in score.pairs():
            if not first.is_scored:
                continue
            figure = by_line[first.line]
            rows.append(
                RegisterRow(
                    source=entry.source,
                    entry=entry.name,
                    question=entry.question(figure),
                    metric=first.metric,
                    unit=first.unit,
                    num_gpus=first.num_gpus,
                    first=first.simulated,
                    present=None if present is None else present.simulated,
                    measured=first.measured,
                    date=entry.first.date,
                    published=entry.published,
                    version=entry.first.code.version,
                    features=first.features if present is None else present.features,
                    band=entry.first_of(figure).band,
                )
            )
    return rows
