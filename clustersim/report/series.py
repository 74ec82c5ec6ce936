"""Grouping of the runs of a sweep into lines, their labels, and the headline run of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.report.layout_words import DEGREES, layout_labels
from clustersim.report.words import count, gpus
from clustersim.results import Run, Sweep


@dataclass(frozen=True)
class Series:
    """Runs that differ only in the number of GPUs, smallest first; `label` is empty for the only series."""

    label: str
    runs: tuple[Run, ...]


def varied(sweep: Sweep) -> tuple[str, ...]:
    """Return the axes other than the number of GPUs that take more than one value, in the scenario's order."""
    keys = dict.fromkeys(key for run in sweep.ran for key in run.axes if key != "num_gpus")
    return tuple(key for key in keys if len({repr(run.axes.get(key)) for run in sweep.ran}) > 1)


def apart(sweep: Sweep) -> tuple[str, ...]:
    """Return the `varied` axes without those that only go with the number of GPUs, as in a zip of both."""
    runs = sweep.ran
    if not runs or not all("num_gpus" in run.axes for run in runs):
        return varied(sweep)
    sizes = len({run.num_gpus for run in runs})
    return tuple(key for key in varied(sweep) if len({(run.num_gpus, repr(run.axes.get(key))) for run in runs}) > sizes)


def varies_in_size(sweep: Sweep) -> bool:
    """Return whether the number of GPUs is an axis, and not what each case of a scenario has for itself."""
    is_axis = any("num_gpus" in run.axes for run in sweep.ran) or not varied(sweep)
    return is_axis and len({run.num_gpus for run in sweep.ran}) > 1


def series(sweep: Sweep) -> tuple[Series, ...]:
    """Return the series of a sweep in the order of its axes."""
    keys, names = apart(sweep), settings(sweep)
    groups: dict[str, list[Run]] = {}
    for run in sweep.ran:
        groups.setdefault(_axes_key(run, keys), []).append(run)
    return tuple(
        Series(names[place], tuple(sorted(runs, key=lambda run: run.num_gpus))) for place, runs in groups.items()
    )


def settings(sweep: Sweep) -> dict[str, str]:
    """Return the labels of runs by their varying axes except the number of GPUs (`ring, batch 32`), by `_axes_key`."""
    keys = apart(sweep)
    runs = {_axes_key(run, keys): run for run in sweep.ran}
    values = {key: value_labels(sweep, key) for key in keys}
    names = short_labels([_full_label(run, keys, values) for run in runs.values()])
    return dict(zip(runs, names, strict=True))


def value_labels(sweep: Sweep, key: str) -> dict[str, str]:
    """Return a label that is clear by itself for each value of an axis, by its `repr`."""
    return {**_values(sweep, key, axis_value), **_short_names(sweep, key)}


def _values(sweep: Sweep, key: str, text: Callable[[str, Any], str]) -> dict[str, str]:
    return {repr(run.axes[key]): text(key, run.axes[key]) for run in sweep.ran if key in run.axes}


def _short_names(sweep: Sweep, key: str) -> dict[str, str]:
    """Return a short name for each layout, cluster or list on an axis, by its `repr`; empty for other values."""
    values = {repr(run.axes[key]): run.axes[key] for run in sweep.ran if key in run.axes}
    given = list(values.values())
    if key == "parallelism":
        short = layout_labels(sweep, given)
    else:
        short = _clusters(sweep, given) if key == "topology" else _kinds_of_lists(key, given)
    return {} if short is None else dict(zip(values, short, strict=True))


def _clusters(sweep: Sweep, values: Sequence[Any]) -> list[str] | None:
    """Return the GPU or the host of each cluster, or its name; None where all have one or it is not known."""
    found = sweep.scenario.get("topology")
    if not isinstance(found, list) or len(found) != len(values) or not all(isinstance(each, Mapping) for each in found):
        return None
    hosts = [each.get("host") for each in found]
    machines = [host.get("gpu") or host.get("template") if isinstance(host, Mapping) else host for host in hosts]
    for names in (machines, [each.get("name") for each in found]):
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [str(name) for name in names]
    return None


_LIST_OF_ONE = re.compile(r"\[\{kind: ([\w-]+)[^\[\]{}]*(?:\[[^\[\]]*\][^\[\]{}]*)*\}\]")


def _kinds_of_lists(key: str, values: Sequence[Any]) -> list[str] | None:
    """Return the kinds of the members of lists of at most one, such as `stragglers: [[], [{kind: constant}]]`.

    None where there are other values or two of one kind.
    """
    found = [_LIST_OF_ONE.fullmatch(str(value)) for value in values]
    labels = [f"no {axis_value(key, None)[3:]}" if match is None else match[1] for match in found]
    is_known = all(match is not None or str(value) == "[]" for match, value in zip(found, values, strict=True))
    return labels if is_known and len(set(labels)) == len(labels) > 0 and any(found) else None


def inner_keys(sweep: Sweep) -> dict[str, str]:
    """Return the varied keys that only some values of another axis have, with the key of that axis.

    In `strategy: [ring, {kind: softsync, n: [1, 4]}]`, `strategy.n` is inside `strategy`.
    """
    keys = varied(sweep)
    partial = {key for key in keys if any(key not in run.axes for run in sweep.ran)}
    found = {key: [outer for outer in keys if outer not in partial and key.startswith(f"{outer}.")] for key in partial}
    return {key: max(found[key], key=len) for key in keys if found.get(key)}


def setting(sweep: Sweep, run: Run) -> str:
    """Return the label of one run among the `settings` of its sweep."""
    keys = apart(sweep)
    found = settings(sweep).get(_axes_key(run, keys))
    return found or _full_label(run, keys, {key: value_labels(sweep, key) for key in keys})


def _axes_key(run: Run, keys: tuple[str, ...]) -> str:
    return repr([run.axes.get(key) for key in keys])


def _full_label(run: Run, keys: tuple[str, ...], values: Mapping[str, Mapping[str, str]]) -> str:
    """Return the labels of a run's values, without the axes that it does not have."""
    given = {key: run.axes[key] for key in keys if key in run.axes}
    return ", ".join(values[key].get(repr(value)) or axis_value(key, value) for key, value in given.items())


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return shorter labels that are still distinct.

    A word `key=value` is dropped if it has the same value in all labels, except numbers. `key=true` becomes `key`. Of a
    long list the first members and the last stay.

    >>> short_labels(["async servers={on: own-hosts}", "softsync n=4 servers={on: own-hosts}", "softsync n=8"])
    ['async', 'softsync n=4', 'softsync n=8']
    >>> short_labels(["gossip", "gossip asynchronous=true"])
    ['gossip', 'gossip asynchronous']
    """
    split = [_WORD.findall(label) for label in labels]
    values: dict[str, set[str]] = {}
    for word in (word for words in split for word in words if "=" in word):
        values.setdefault(word.partition("=")[0], set()).add(word.rstrip(","))
    for key in (key for key, found in values.items() if len(found) == 1 and not _is_informative(found)):
        shorter = [[word for word in words if word.partition("=")[0] != key or "=" not in word] for words in split]
        if all(shorter) and len({" ".join(words) for words in shorter}) == len({" ".join(words) for words in split}):
            split = shorter
    full = [" ".join(words) for words in split]
    plain = [_LIST.sub(_shorter_list, _TRUE.sub(lambda found: found[1].replace("_", " "), label)) for label in full]
    return plain if len(set(plain)) == len(set(full)) else full


_WORD = re.compile(r"[^\s{]*\{[^}]*\}|\S+")
_TRUE = re.compile(r"\b(\w+)=true\b")
_LIST = re.compile(r"\[([^\[\]]*)\]")
_LONGEST_LIST = 6


def _shorter_list(found: re.Match[str]) -> str:
    members = found[1].split(", ")
    if len(members) <= _LONGEST_LIST:
        return found[0]
    return f"[{', '.join(members[:4])} … {members[-1]}]"


def _is_informative(found: set[str]) -> bool:
    """Return whether the single value of a key is a number or `true`, which is informative by itself."""
    value = next(iter(found)).partition("=")[2]
    return value == "true" or value.replace(".", "", 1).isdigit()


_AMBIGUOUS = ("offload", "recompute", "context_method", "balance")
"""Keys whose values are ambiguous alone: `full`, `optimizer`, `all-gather`."""


def axis_value(key: str, value: Any) -> str:
    """Return one value of an axis as a text that is clear by itself.

    >>> axis_value("strategy.algorithm", "ring"), axis_value("batch.per_gpu", 32), axis_value("strategy.overlap", True)
    ('ring', 'batch.per_gpu 32', 'overlap on')
    >>> axis_value("parallelism.offload", "optimizer"), axis_value("compression.kind", "none")
    ('offload optimizer', 'compression none')
    """
    leaf = key.removesuffix(".kind").removesuffix(".num").rpartition(".")[2]
    if key == f"parallelism.{leaf}":
        leaf = DEGREES.get(leaf, leaf)
    if value is None:
        return f"no {leaf}"
    if isinstance(value, bool):
        return f"{leaf} {'on' if value else 'off'}"
    if isinstance(value, int | float):
        if len(leaf) == 1:
            return f"{leaf}={count(value)}"
        return f"{key if leaf in ('per_gpu', 'global') else leaf} {count(value)}"
    if isinstance(value, Mapping):
        inner = (
            axis_value(key if name == "kind" else name, part)
            for name, part in value.items()
            if not isinstance(part, list | tuple)
        )
        return " ".join(inner) or leaf
    if isinstance(value, list | tuple):
        return ", ".join(axis_value(key, part) for part in value) or f"no {leaf}"
    is_named = value == "none" or leaf in _AMBIGUOUS
    return f"{leaf.replace('_', ' ')} {value}" if is_named else str(value)


def axis_headings(keys: Sequence[str]) -> list[str]:
    """Return the column headings of axes: the last part of each key, with spaces."""
    return [key.rpartition(".")[2].replace("_", " ") for key in keys]


def axis_cell(key: str, value: Any) -> str:
    """Return one value of an axis as a table cell below its key.

    >>> axis_cell("batch.per_gpu", 32), axis_cell("strategy.overlap", True), axis_cell("parallelism.recompute", "full")
    ('32', 'on', 'full')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    return count(value) if isinstance(value, int | float) else axis_value(key, value)


def axis_cells(sweep: Sweep) -> Callable[[Run], list[str]]:
    """Return what gives the values of a run on the `varied` axes as table cells; a dash for an axis that it lacks."""
    cells = {key: {**_values(sweep, key, axis_cell), **_short_names(sweep, key)} for key in varied(sweep)}
    return lambda run: [found[repr(run.axes[key])] if key in run.axes else "–" for key, found in cells.items()]


def has_one_baseline(sweep: Sweep) -> bool:
    """Return whether the speedups of all runs have the same baseline."""
    return len({run.speedup_basis for run in sweep.ran}) == 1


def basis(sweep: Sweep) -> str:
    """Return the text for the baseline of speedups; where each run has its own, where to find it."""
    if has_one_baseline(sweep):
        return headline(sweep).speedup_basis
    return "each run's own (see the table of all runs)"


def run_label(sweep: Sweep, run: Run) -> str:
    """Name a run: `128 GPUs, ring`."""
    return ", ".join(part for part in (gpus(run.num_gpus), setting(sweep, run)) if part)


def headline(sweep: Sweep) -> Run:
    """Return the headline run: of the first model's runs with the most GPUs, the fastest in samples per second."""
    return largest(sweep)[0]


def largest(sweep: Sweep) -> tuple[Run, ...]:
    """Return the runs at the largest number of GPUs, the fastest first; of several models only the first.

    Where the number of GPUs is no axis and each case has its own, it returns those of all.

    Samples of different models are not comparable: a sequence may have sixteen times as many tokens.
    """
    alike = [run for run in sweep.ran if run.axes.get("model") == sweep.ran[0].axes.get("model")]
    if varies_in_size(sweep):
        most = max(run.num_gpus for run in alike)
        alike = [run for run in alike if run.num_gpus == most]
    return tuple(sorted(alike, key=lambda run: -run.samples_per_s))


def of_model(sweep: Sweep) -> str:
    """Return the suffix that names the compared model; empty where there is only one."""
    return f" of {sweep.ran[0].axes['model']}" if "model" in varied(sweep) else ""


def runs_in_order(sweep: Sweep) -> list[Run]:
    """Return all runs, series by series: the order of the table and of the page's choice of run."""
    return [run for one in series(sweep) for run in one.runs]


def runs_with_figures(sweep: Sweep, limit: int | None = None) -> tuple[Run, ...]:
    """Return the runs, those first whose own figures tell most: the headline, others of its size, then by size."""
    rivals = largest(sweep)
    others = [run for run in sweep.ran if not any(run is rival for rival in rivals)]
    others.sort(key=lambda run: (-run.num_gpus, -run.samples_per_s))
    return (*rivals, *others)[:limit]
