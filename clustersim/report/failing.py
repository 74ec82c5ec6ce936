"""The points of a sweep without a forecast: how many, which, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from clustersim.report.options import axis_name
from clustersim.report.series import axis_cells, axis_headings, value_labels, varied
from clustersim.report.text_table import Row, TextTable
from clustersim.report.words import THIN, count, gpus, listed, shortened, size
from clustersim.results import PointError, Run, Sweep
from clustersim.units import read_quantity

TITLE = "points without a forecast"

_SAID = {
    "does-not-fit": ("does not fit", "do not fit"),
    "refused": ("is refused", "are refused"),
    "stuck": ("cannot end", "cannot end"),
    "too-long": ("takes too long", "take too long"),
}
_REASONS = {"does-not-fit": "does not fit", "refused": "refused", "stuck": "stuck", "too-long": "too long"}
_LONGEST = 240
_MOST_VALUES = 4


def every_point(sweep: Sweep) -> Sweep:
    """Return the sweep as if every point had a forecast, for what only the axes of the points tell."""
    return replace(sweep, runs=tuple(replace(run, error=None) for run in sweep.runs)) if sweep.failed else sweep


def failing_sentence(sweep: Sweep) -> str:
    """Say how many points have no forecast, and at which values of the axes; empty if all have one."""
    if not sweep.failed:
        return ""
    kinds = Counter(run.error.kind for run in sweep.failed if run.error is not None)
    said = [(count(number), _SAID[kind][number > 1]) for kind, number in kinds.most_common()]
    if len(sweep.runs) == 1:
        return f"the only point {said[0][1]}"
    if not sweep.ran:
        each = " and ".join(f"{number} {verb}" for number, verb in said)
        return f"none of {count(len(sweep.runs))} points has a forecast: {each}"
    (number, verb), *others = said
    first = f"{number} of {count(len(sweep.runs))} points {verb}"
    return f"{' and '.join([first, *map(' '.join, others)])}{_where(sweep)}"


def reason(error: PointError) -> str:
    """Return why a point has no forecast, in one line: `does not fit: 131 of 85.0 GB; batch {per_gpu: 4}`."""
    if error.needed_bytes is None or error.available_bytes is None:
        return shortened(f"{_REASONS[error.kind]}: {' '.join(error.message.split())}", _LONGEST)
    needed, available = size(error.needed_bytes), size(error.available_bytes)
    number, _, unit = needed.partition(THIN)
    of = f"{number if available.endswith(unit) else needed} of {available}"
    return "; ".join(filter(None, (f"{_REASONS[error.kind]}: {of}", error.remedy)))


def failing_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the texts of the points without a forecast: GPUs, varied axes, and the reason."""
    whole = every_point(sweep)
    cells = axis_cells(whole)
    body = [[count(run.num_gpus), *cells(run), reason(run.error)] for run in sweep.failed if run.error is not None]
    return ["GPUs", *axis_headings(varied(whole)), "reason"], body


def failing_table(sweep: Sweep) -> TextTable | None:
    """Return the points without a forecast as a table for the terminal; None if all have one."""
    if not sweep.failed:
        return None
    headings, body = failing_rows(sweep)
    named, texts = len(headings) - 1, frozenset(["reason"])
    rows = tuple(Row(tuple(cells)) for cells in body)
    return TextTable(f"{sweep.name}: {TITLE}", tuple(headings), rows, named, left=texts, wrapped=texts)


def _where(sweep: Sweep) -> str:
    """Return the values of axes with which no point has a forecast; empty where there are none, or many."""
    whole = every_point(sweep)
    texts: list[str] = []
    explained: set[int] = set()
    axes = _labels(whole)
    for key, labels in axes.items():
        never = _never(sweep, key, labels, fewest=1 if len(axes) == 1 else 2)
        texts += [labels[value] for value in never]
        explained |= {number for number, run in enumerate(sweep.failed) if _value(run, key) in never}
    if not 0 < len(texts) <= _MOST_VALUES:
        return ""
    return f", {'all' if len(explained) == len(sweep.failed) else 'among them all'} those with {listed(texts, 'or')}"


def _labels(sweep: Sweep) -> dict[str, dict[str, str]]:
    """Return the label of each value of the axes that have several, by the key of the axis and the `repr`."""
    sizes = {repr(run.num_gpus): gpus(run.num_gpus) for run in sweep.runs}
    found = {"num_gpus": sizes} | {key: _named(key, value_labels(sweep, key)) for key in varied(sweep)}
    return {key: labels for key, labels in found.items() if len(labels) > 1}


def _named(key: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels with the name of their axis where a label is a quantity alone, such as `12 h`."""
    return {
        value: label if read_quantity(label) is None else f"{axis_name(key)} {label}" for value, label in labels.items()
    }


def _never(sweep: Sweep, key: str, labels: Mapping[str, str], fewest: int) -> list[str]:
    """Return the values of an axis that some points have, `fewest` or more, and none of those with a forecast."""
    ran = {_value(run, key) for run in sweep.ran}
    numbers = Counter(_value(run, key) for run in sweep.failed)
    return [value for value in labels if value not in ran and numbers[value] >= fewest]


def _value(run: Run, key: str) -> str:
    return repr(run.num_gpus if key == "num_gpus" else run.axes.get(key))
