"""The axes of a sweep as a question: what is chosen, and under which conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from clustersim.report.series import apart, axis_value, inner_keys, short_labels, value_labels, varies_in_size
from clustersim.report.words import gpus
from clustersim.results import Run, Sweep
from clustersim.units import read_quantity

_CONDITIONS = frozenset(
    [
        "background_traffic",
        "batch",
        "dataset_size",
        "failures",
        "jobs",
        "learning.data",
        "learning.target",
        "learning.task",
        "model",
        "num_gpus",
        "packing",
        "stragglers",
        "train_tokens",
    ]
)
"""Beginnings of keys that say what is to be trained and what happens to it, unless nothing else varies."""

_CHOSEN = frozenset(["batch", "model", "num_gpus"])
"""Conditions that a user sets all the same; the others happen to a training."""

EQUAL = 0.01
"""Relative difference up to which two rates are called equal."""


@dataclass(frozen=True)
class Axis:
    """One axis with its values, ascending if they are quantities of one kind, and the label of each value.

    `inner` are axes that only some of its values have; a value is then a tuple of its own and of theirs.
    """

    key: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    is_numeric: bool
    inner: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the key, with spaces."""
        return axis_name(self.key)

    def place(self, run: Run) -> int:
        """Return the place of a run's value among all values."""
        return [repr(value) for value in self.values].index(repr(_value(run, self.key, self.inner)))

    def label(self, run: Run) -> str:
        """Return the label of a run's value."""
        return self.labels[self.place(run)]


@dataclass(frozen=True)
class SweepCell:
    """The runs under the same conditions, the most samples per second first, and the place of each condition."""

    where: tuple[int, ...]
    runs: tuple[Run, ...]

    @property
    def factor(self) -> float:
        """How many times as fast the fastest run is as the slowest one."""
        return self.runs[0].samples_per_s / self.runs[-1].samples_per_s

    @property
    def fastest(self) -> tuple[Run, ...]:
        """The runs that are as fast as the fastest one, within `EQUAL`."""
        return tuple(run for run in self.runs if self.runs[0].samples_per_s <= (1 + EQUAL) * run.samples_per_s)

    @property
    def slowest(self) -> tuple[Run, ...]:
        """The runs that are as slow as the slowest one, within `EQUAL`."""
        return tuple(run for run in self.runs if run.samples_per_s <= (1 + EQUAL) * self.runs[-1].samples_per_s)


@dataclass(frozen=True)
class SweepQuestion:
    """What a sweep asks: `choices` may be chosen, under each of the `conditions`, one cell for each."""

    choices: tuple[Axis, ...]
    conditions: tuple[Axis, ...]
    cells: tuple[SweepCell, ...]

    def label(self, run: Run) -> str:
        """Return what is chosen in a run, such as `ring, batch 32`."""
        return ", ".join(axis.label(run) for axis in self.choices)

    @property
    def number(self) -> Axis | None:
        """The only axis to choose on, if it is a number with three values or more."""
        only = self.choices[0] if len(self.choices) == 1 else None
        return only if only is not None and only.is_numeric and len(only.values) > 2 else None

    @property
    def is_chosen(self) -> bool:
        """Whether the values are chosen, and do not happen to a training as stragglers do."""
        return not all(_begins(axis.key, _CONDITIONS - _CHOSEN) for axis in self.choices)

    def places(self, run: Run) -> tuple[int, ...]:
        """Return the place of a run's value on each axis to choose on."""
        return tuple(axis.place(run) for axis in self.choices)

    @property
    def everywhere(self) -> frozenset[str]:
        """The settings that are as fast as the fastest one in every cell."""
        return frozenset.intersection(*(frozenset(map(self.label, cell.fastest)) for cell in self.cells))

    def named(self, cell: SweepCell) -> list[Run]:
        """Return the fastest runs of a cell, those alone that are the fastest in every cell, if there are any."""
        everywhere = self.everywhere
        found = [run for run in cell.fastest if self.label(run) in everywhere]
        return sorted(found or cell.fastest, key=self.places)

    def best(self, cell: SweepCell) -> Run:
        """Return the fastest run of a cell; of equally fast ones that of the smallest number, or of several axes."""
        named = self.named(cell)
        is_ordered = self.number is not None or len(self.choices) > 1
        return named[0] if is_ordered else max(named, key=lambda run: run.samples_per_s)

    def worst(self, cell: SweepCell) -> Run:
        """Return the slowest run of a cell; of equally slow ones the first in the order of the axes."""
        return min(cell.slowest, key=self.places)

    def where(self, cell: SweepCell) -> str:
        """Return the conditions of a cell: `on 8 GPUs, with cv 0.6`; empty without conditions."""
        pairs = zip(self.conditions, cell.where, strict=True)
        return ", ".join(f"{_PREPOSITIONS.get(axis.key, 'with')} {axis.labels[place]}" for axis, place in pairs)


_PREPOSITIONS = {"num_gpus": "on", "model": "for"}


def question_of(sweep: Sweep) -> SweepQuestion:
    """Return the question of a sweep: axes that only set the task are conditions, unless nothing else varies.

    The number of GPUs is one if it is an axis, and not where each case has its own. Axes that go with it are left out.
    Where each condition has one run, all axes are choices.
    """
    inside = inner_keys(sweep)
    sizes = ["num_gpus"] if varies_in_size(sweep) else []
    keys = [key for key in apart(sweep) if key not in inside]
    choices = [key for key in keys if not _begins(key, _CONDITIONS)]
    if not choices:
        choices = [key for key in keys if key != "model"]
    conditions = [*(key for key in keys if key not in choices), *sizes]
    if choices and len(sweep.ran) == len({repr([_value(run, key) for key in conditions]) for run in sweep.ran}) > 1:
        choices, conditions = [*choices, *conditions], []
    inner = {key: tuple(part for part, outer in inside.items() if outer == key) for key in keys}
    axes = {key: _axis(sweep, key, inner.get(key, ())) for key in (*choices, *conditions)}
    found = tuple(axes[key] for key in conditions)

    def places(run: Run) -> tuple[int, ...]:
        return tuple(axis.place(run) for axis in found)

    grouped = groupby(sorted(sweep.ran, key=lambda run: (places(run), -run.samples_per_s)), key=places)
    cells = tuple(SweepCell(where, tuple(runs)) for where, runs in grouped)
    return SweepQuestion(tuple(axes[key] for key in choices), found, cells)


def _begins(key: str, names: frozenset[str]) -> bool:
    """Return whether a key is one of these names, or inside one.

    >>> _begins("learning.data", frozenset(["learning.data"])), _begins("jobs.0.model", frozenset(["jobs"]))
    (True, True)
    """
    return any(key == name or key.startswith(f"{name}.") for name in names)


def axis_name(key: str) -> str:
    """Return the last part of a key that is a name, with spaces."""
    return key.removesuffix(".kind").removesuffix(".num").rpartition(".")[2].replace("_", " ")


def main_cell(question: SweepQuestion) -> SweepCell:
    """Return the cell on the most GPUs, of the first model, and of the last value of each other condition.

    If its settings are equally fast, it is the cell in which they differ most.
    """
    models = [place for place, axis in enumerate(question.conditions) if axis.key == "model"]
    main = [cell for cell in question.cells if all(cell.where[place] == 0 for place in models)][-1]
    widest = max(question.cells, key=lambda cell: cell.factor)
    return widest if main.factor <= 1 + EQUAL < widest.factor else main


def enough(axis: Axis, runs: Sequence[Run]) -> str:
    """Return the label of the smallest value from which on a number changes nothing; empty for the largest."""
    ordered = sorted(runs, key=axis.place)
    if not axis.is_numeric or len(ordered) < 3:
        return ""
    last = ordered[-1].samples_per_s
    flat = [abs(run.samples_per_s / last - 1.0) < EQUAL for run in ordered]
    place = next(place for place in range(len(ordered)) if all(flat[place:]))
    return axis.label(ordered[place]) if 0 < place < len(ordered) - 1 else ""


def _value(run: Run, key: str, inner: Sequence[str] = ()) -> Any:
    if inner:
        return (run.axes.get(key), *((part, run.axes[part]) for part in inner if part in run.axes))
    return run.num_gpus if key == "num_gpus" else run.axes.get(key)


def _axis(sweep: Sweep, key: str, inner: tuple[str, ...]) -> Axis:
    values = list({repr(value): value for value in (_value(run, key, inner) for run in sweep.ran)}.values())
    numbers = [_number(value) for value in values]
    is_numeric = (
        len({None if number is None else number[0] for number in numbers} - {None}) == 1 and None not in numbers
    )
    if is_numeric:
        values.sort(key=lambda value: (_number(value) or ("", 0.0))[1])
    return Axis(key, tuple(values), _labels(sweep, key, values, inner, is_numeric), is_numeric, inner)


def _labels(sweep: Sweep, key: str, values: Sequence[Any], inner: Sequence[str], is_numeric: bool) -> tuple[str, ...]:
    """Return the labels of values; quantities such as `400 Gbit/s` follow the name of their axis."""
    if key == "num_gpus":
        return tuple(gpus(value) for value in values)
    known = value_labels(sweep, key)
    if inner:
        first = [known.get(repr(value[0])) or axis_value(key, value[0]) for value in values]
        rest = [[axis_value(*part) for part in value[1:]] for value in values]
        return tuple(short_labels([" ".join((one, *more)) for one, more in zip(first, rest, strict=True)]))
    labels = [known.get(repr(value)) or axis_value(key, value) for value in values]
    if not is_numeric:
        return tuple(short_labels(labels))
    name = axis_name(key)
    return tuple(
        f"{name} {value}" if isinstance(value, str) else label for value, label in zip(values, labels, strict=True)
    )


def _number(value: Any) -> tuple[str, float] | None:
    """Return the kind and the SI value of a number or a quantity; None for all else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", float(value)
    return read_quantity(value) if isinstance(value, str) else None
