"""What differs in the scenarios of two runs, and in what was taken for them: keys with both values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.errors import InputError
from clustersim.reading import from_python
from clustersim.report.words import percent, size
from clustersim.results import Run, Sweep
from clustersim.scenario.axes import labels
from clustersim.scenario.merge import merge
from clustersim.scenario.overrides import CASE, CASES, set_node
from clustersim.scenario.validate import open_topology
from clustersim.units import format_rate

ABSENT = "not given"
"""Value of a key that a scenario does not have."""

SWEEP = "sweep"
"""The key with further axes, and with conditions for points."""

_DRAWS = ("random", "latin-hypercube")
"""Keys of `sweep` whose values are drawn."""

_NOT_OF_THE_RUN = ("name", "description", "published", "$schema", "extends")
"""Keys that change no forecast."""


@dataclass(frozen=True)
class SettingChange:
    """A key of the scenario with the value in each, or a fact of the runs that is not a key, such as a link's rate."""

    key: str
    a: Any
    b: Any

    @property
    def words(self) -> tuple[str, str]:
        """Both values as texts."""
        return setting_text(self.a), setting_text(self.b)


def setting_changes(a: tuple[Sweep, Run], b: tuple[Sweep, Run]) -> tuple[SettingChange, ...]:
    """Return the keys whose values differ between two points, in the order of the scenarios."""
    first, second = (at_point(sweep.scenario, run.axes) for sweep, run in (a, b))
    found = list(
        _changes("", *({k: v for k, v in each.items() if k not in _NOT_OF_THE_RUN} for each in (first, second)))
    )
    if a[0].seed != b[0].seed and "seed" not in {change.key for change in found}:
        found.append(SettingChange("seed", a[0].seed, b[0].seed))
    return tuple(found)


def _changes(key: str, a: Any, b: Any) -> Iterator[SettingChange]:
    """Yield the innermost keys under a key whose values differ; a map that only one has is one value."""
    pair = [a, b]
    if all(isinstance(each, list) and any(isinstance(item, Mapping) for item in each) for each in pair):
        pair = [{str(number): item for number, item in enumerate(each)} for each in pair]
    if all(isinstance(each, Mapping) for each in pair):
        for name in dict.fromkeys([*pair[0], *pair[1]]):
            inner = [each.get(name, ABSENT) for each in pair]
            yield from _changes(f"{key}.{name}" if key else str(name), *inner)
    elif a != b:
        yield SettingChange(key, a, b)


def fact_changes(a: Run, b: Run) -> tuple[SettingChange, ...]:
    """Return what differs in what the runs took: programs, kernels, layout, memory of a GPU, rates of links."""
    first, second = _facts(a), _facts(b)
    shared = [key for key in first if key in second]
    return tuple(SettingChange(key, first[key], second[key]) for key in shared if first[key] != second[key])


def _facts(run: Run) -> dict[str, str]:
    """Return what a run took, in words; a fact that it does not know is absent."""
    found = {"software": run.software, "transport": run.transport, "times of kernels": run.kernels}
    if run.features is not None:
        found |= {"architecture of the GPU": run.features.architecture, "precision": run.features.precision}
    if run.gpu_memory_bytes is not None:
        found["memory of a GPU"] = size(run.gpu_memory_bytes)
    found |= {f"rate of {links.kind}": format_rate(links.bytes_per_s) for links in run.link_classes}
    origins = ", ".join(f"{percent(share)} {origin}" for origin, share in run.provenance.items() if share > 0)
    found["provenance of compute times"] = origins
    return {key: text for key, text in found.items() if text}


def at_point(scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario as written, with the values of a point in place of `cases`, `sweep`, and the lists of its axes.

    >>> at_point({"batch": {"per_gpu": [1, 2]}, "strategy": [{"kind": "server"}]}, {"batch.per_gpu": 2})
    {'batch': {'per_gpu': 2}, 'strategy': [{'kind': 'server'}]}
    >>> at_point({"cases": {"a": {"num_gpus": 2}}, "sweep": {"grid": {"seed": [1, 2]}}}, {"case": "a", "seed": 2})
    {'num_gpus': 2, 'seed': 2}
    """
    found = {key: value for key, value in scenario.items() if key not in (CASES, SWEEP)}
    cases, swept = scenario.get(CASES) or {}, _swept(scenario.get(SWEEP) or {})
    if axes.get(CASE) in cases:
        found = merge(from_python(found), from_python(cases[axes[CASE]])).plain()
    for key, label in axes.items():
        if key in swept:
            found = _set(found, key, _element(swept[key], label))
        elif key != CASE or not cases:
            found = _put(found, key.split("."), label)
    return found


def _swept(sweep: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the listed values of each axis of `sweep`; none for one that is drawn from a range."""
    zips = sweep.get("zip") or []
    maps = [sweep.get("grid") or {}, *(zips if isinstance(zips, list) else [zips])]
    maps += [sweep[draws].get("keys") or {} for draws in _DRAWS if sweep.get(draws)]
    return {key: values if isinstance(values, list) else [] for each in maps for key, values in each.items()}


def _set(found: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return a scenario with a value at a dotted key; where that cannot be set, the dotted key becomes a key itself."""
    path, tree = tuple(key.split(".")), from_python(found)
    try:
        opened = open_topology(tree) if path[0] == "topology" and len(path) > 1 else tree
        changed: dict[str, Any] = set_node(opened, path, from_python(value)).plain()
    except InputError:
        return {**found, key: value}
    return changed


def value_at(value: Any, key: str) -> Any:
    """Return the value of a dotted key; None where there is none."""
    for part in key.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def _put(value: Any, path: list[str], label: Any) -> Any:
    """Return a value with the element of this label in place of the list at a path."""
    if not path:
        return _element(value, label) if isinstance(value, list) else value
    if isinstance(value, list) and path[0].isdigit() and int(path[0]) < len(value):
        place = int(path[0])
        return [*value[:place], _put(value[place], path[1:], label), *value[place + 1 :]]
    if isinstance(value, Mapping) and path[0] in value:
        return {**value, path[0]: _put(value[path[0]], path[1:], label)}
    return value


def _element(elements: list[Any], label: Any) -> Any:
    if label in elements:
        return label
    return next((each for name, each in zip(labels(elements), elements, strict=True) if name == label), label)


def setting_text(value: Any) -> str:
    """Return a value as a scenario has it, in one line.

    >>> setting_text(True), setting_text([1, {"kind": "all-reduce"}]), setting_text(None)
    ('true', '[1, {kind: all-reduce}]', 'null')
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {setting_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(setting_text, value)) + "]"
    return str(value)
