"""Which runs of a sweep belong on one line, what each is called, and which one the page talks about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.report.words import count, gpus
from clustersim.results import Run, Sweep


@dataclass(frozen=True)
class Series:
    """Runs that differ in nothing but the number of GPUs, smallest first; `label` is empty if it is the only one."""

    label: str
    runs: tuple[Run, ...]


def varied(sweep: Sweep) -> tuple[str, ...]:
    """Return the axes other than the number of GPUs that take more than one value, in the scenario's order."""
    keys = dict.fromkeys(key for run in sweep.runs for key in run.axes if key != "num_gpus")
    return tuple(key for key in keys if len({repr(run.axes.get(key)) for run in sweep.runs}) > 1)


def series(sweep: Sweep) -> tuple[Series, ...]:
    """Return the sweep's lines in the order of its axes."""
    keys, names = varied(sweep), settings(sweep)
    groups: dict[str, list[Run]] = {}
    for run in sweep.runs:
        groups.setdefault(_place(run, keys), []).append(run)
    return tuple(
        Series(names[place], tuple(sorted(runs, key=lambda run: run.num_gpus))) for place, runs in groups.items()
    )


def settings(sweep: Sweep) -> dict[str, str]:
    """Return what runs are called by the axes that vary, the number of GPUs apart (`ring, batch 32`), by `_place`."""
    keys = varied(sweep)
    runs = {_place(run, keys): run for run in sweep.runs}
    names = short_labels([_full_label(run, keys) for run in runs.values()])
    return dict(zip(runs, names, strict=True))


def setting(sweep: Sweep, run: Run) -> str:
    """Return what one run is called among the `settings` of its sweep."""
    keys = varied(sweep)
    return settings(sweep).get(_place(run, keys)) or _full_label(run, keys)


def _place(run: Run, keys: tuple[str, ...]) -> str:
    return repr([run.axes.get(key) for key in keys])


def _full_label(run: Run, keys: tuple[str, ...]) -> str:
    return ", ".join(axis_value(key, run.axes.get(key)) for key in keys)


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return labels without what tells nothing apart, and in fewer words, where they stay different without.

    Words `key=value` go that have the same value wherever they stand, except numbers; `key=true` becomes `key`, of a
    long list its first and last members stay.

    >>> short_labels(["async servers={on: own-hosts}", "softsync n=4 servers={on: own-hosts}", "softsync n=8"])
    ['async', 'softsync n=4', 'softsync n=8']
    >>> short_labels(["gossip", "gossip asynchronous=true"])
    ['gossip', 'gossip asynchronous']
    """
    split = [_WORD.findall(label) for label in labels]
    values: dict[str, set[str]] = {}
    for word in (word for words in split for word in words if "=" in word):
        values.setdefault(word.partition("=")[0], set()).add(word.rstrip(","))
    for key in (key for key, found in values.items() if len(found) == 1 and not _tells(found)):
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


def _tells(found: set[str]) -> bool:
    """Return whether the one value of a key is a number or a switch, which says something where it stands."""
    value = next(iter(found)).partition("=")[2]
    return value == "true" or value.replace(".", "", 1).isdigit()


_SAY_LITTLE = ("offload", "recompute", "context_method", "balance")
"""Keys whose values say nothing without them: `full`, `optimizer`, `all-gather`."""


def axis_value(key: str, value: Any) -> str:
    """Write one value of an axis so that it can stand alone.

    >>> axis_value("strategy.algorithm", "ring"), axis_value("batch.per_gpu", 32), axis_value("strategy.overlap", True)
    ('ring', 'batch.per_gpu 32', 'overlap on')
    >>> axis_value("parallelism.offload", "optimizer"), axis_value("compression.kind", "none")
    ('offload optimizer', 'compression none')
    """
    leaf = key.removesuffix(".kind").rpartition(".")[2]
    if value is None:
        return f"no {leaf}"
    if isinstance(value, bool):
        return f"{leaf} {'on' if value else 'off'}"
    if isinstance(value, int | float):
        if len(leaf) == 1:
            return f"{leaf}={count(value)}"
        return f"{key if leaf in ('per_gpu', 'num') else leaf} {count(value)}"
    if isinstance(value, Mapping):
        inner = (
            axis_value(key if name == "kind" else name, part)
            for name, part in value.items()
            if not isinstance(part, list | tuple)
        )
        return " ".join(inner) or leaf
    if isinstance(value, list | tuple):
        return ", ".join(axis_value(key, part) for part in value) or f"no {leaf}"
    is_named = value == "none" or leaf in _SAY_LITTLE
    return f"{leaf.replace('_', ' ')} {value}" if is_named else str(value)


def axis_headings(keys: Sequence[str]) -> list[str]:
    """Name the columns of axes: by the last part of their keys, which breaks where it has several words."""
    return [key.rpartition(".")[2].replace("_", " ") for key in keys]


def axis_cell(key: str, value: Any) -> str:
    """Write one value of an axis where its key stands above it.

    >>> axis_cell("batch.per_gpu", 32), axis_cell("strategy.overlap", True), axis_cell("strategy.algorithm", "ring")
    ('32', 'on', 'ring')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if value == "none":
        return "none"
    return count(value) if isinstance(value, int | float) else axis_value(key, value)


def has_one_baseline(sweep: Sweep) -> bool:
    """Say whether the speedups of all runs are over the same thing."""
    return len({run.speedup_basis for run in sweep.runs}) == 1


def basis(sweep: Sweep) -> str:
    """Return what speedups are over: the baseline, or that each run has its own and where it stands."""
    if has_one_baseline(sweep):
        return headline(sweep).speedup_basis
    return "each run's own baseline (in samples/s in the table of all runs)"


def run_label(sweep: Sweep, run: Run) -> str:
    """Name a run: `128 GPUs, ring`."""
    return ", ".join(part for part in (gpus(run.num_gpus), setting(sweep, run)) if part)


def headline(sweep: Sweep) -> Run:
    """Return the run the page talks about: the first model's with the most GPUs, of these the most samples a second."""
    return largest(sweep)[0]


def largest(sweep: Sweep) -> tuple[Run, ...]:
    """Return the runs at the largest number of GPUs, the fastest first; of several models those of the first.

    A sample of one model is not one of another: a sequence may have sixteen times as many tokens.
    """
    alike = [run for run in sweep.runs if run.axes.get("model") == sweep.runs[0].axes.get("model")]
    most = max(run.num_gpus for run in alike)
    return tuple(sorted((run for run in alike if run.num_gpus == most), key=lambda run: -run.samples_per_s))


def of_model(sweep: Sweep) -> str:
    """Return which model's runs are compared, in words that follow others; empty where there is one."""
    return f" of {sweep.runs[0].axes['model']}" if "model" in varied(sweep) else ""


def told_apart(sweep: Sweep, limit: int) -> tuple[Run, ...]:
    """Return the runs worth a picture of their own: the headline first, then its rivals, then all others by size."""
    rivals = largest(sweep)
    others = [run for run in sweep.runs if not any(run is rival for rival in rivals)]
    others.sort(key=lambda run: (-run.num_gpus, -run.samples_per_s))
    return (*rivals, *others)[:limit]
