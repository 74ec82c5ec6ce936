"""The points of a scenario's sweep as a table of points."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.results.files import to_json
from clustersim.scenario import Point, Scenario, load_scenario
from clustersim.validation.measured import TableRow


def swept_points(path: Path, name: str) -> tuple[TableRow, ...]:
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


def points_text(rows: Sequence[TableRow]) -> str:
    """Return the table of points that `read_points` reads as these rows."""
    keys = list(dict.fromkeys(key for row in rows for key, _ in row.settings))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["scenario", *keys, "metric", "unit", "label"])
    for row in rows:
        settings = dict(row.settings)
        writer.writerow([row.scenario, *(settings.get(key, "") for key in keys), row.metric, row.unit, row.label])
    return stream.getvalue()
