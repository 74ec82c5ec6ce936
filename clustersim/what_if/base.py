"""The base of all changes: a scenario with one value on every axis except the number of GPUs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.scenario import Point, Scenario, build_topology
from clustersim.scenario.axes import labels
from clustersim.scenario.validate import open_topology
from clustersim.topology.network_spec import NetworkSpec

SIZES = "num_gpus"


@dataclass(frozen=True)
class Listed:
    """The values that a scenario lists for an axis, as written, and the label of each."""

    values: tuple[Any, ...]
    labels: tuple[Any, ...]


@dataclass(frozen=True)
class Base:
    """A scenario as the knobs see it.

    `point` has the first value on every axis, and the most GPUs; `raw` are its keys as written, with the cluster itself
    in place of its name. `listed` are the values of the axes except the number of GPUs, `sizes` those of that.
    """

    point: Point
    raw: dict[str, Any]
    listed: dict[str, Listed]
    sizes: tuple[int, ...]

    @property
    def pins(self) -> dict[str, Any]:
        """The first value of each axis, by its key."""
        return {key: axis.values[0] for key, axis in self.listed.items()}

    @property
    def gives_data(self) -> bool:
        """Whether the scenario fixes the degree of data parallelism of a grid, which then follows from the others."""
        return self.point.parallelism.kind == "grid" and self.written("parallelism.data") is not None

    def written(self, key: str) -> Any:
        """Return the value at a dotted key as the scenario has it; None if it has none."""
        found = self.raw
        for part in key.split("."):
            found = _inside(found, part)
        return found

    def most_gpus(self) -> int | None:
        """Return how many GPUs the cluster has; None if it has as many hosts as a job needs."""
        spec, keys = self.point.topology, self.raw.get("topology")
        states_hosts = isinstance(keys, Mapping) and bool({"num_hosts", "hosts"} & set(keys))
        if isinstance(spec, NetworkSpec) and not states_hosts and spec.max_hosts(1.0) is None:
            return None
        return build_topology(spec).num_gpus


def base_of(scenario: Scenario) -> Base:
    """Return the base of all changes of a scenario; raise InputError for one with `cases` or `sweep`."""
    for key, instead in (("cases", "choose one of them by --set case=NAME"), ("sweep", "write its axes as lists")):
        if (node := scenario.tree().child(key)) is not None and node.value:
            message = f"a page of sliders has no axes from `{key}`; {instead}"
            raise InputError((node.key_place or node.place).mistake(message, key, key, "lists in the scenario"))
    raw = copy.deepcopy(open_topology(scenario.tree()).plain())
    first = scenario.points()[0].axes
    fixed = {key: label for key, label in first.items() if key != SIZES}
    listed: dict[str, Listed] = {}
    for key in fixed:
        values = _at(raw, key)
        listed[key] = Listed(tuple(values), tuple(labels(values)))
        _put(raw, key, values[0])
    alike = [each.point for each in scenario.points() if {k: v for k, v in each.axes.items() if k != SIZES} == fixed]
    point = max(alike, key=lambda each: each.num_gpus)
    return Base(point, raw, listed, tuple(sorted(each.num_gpus for each in alike)))


def source_name(source: str | Path | Mapping[str, Any] | Scenario) -> str:
    """Return the scenario as the command line names it: a file or a shipped name, empty if it has none."""
    if source == {}:
        return ""
    if isinstance(source, Scenario):
        return source.file or f"{source.name}.yaml"
    return f"{source.get('name', 'scenario')}.yaml" if isinstance(source, Mapping) else str(source)


def _inside(container: Any, part: str) -> Any:
    if isinstance(container, Mapping):
        return container.get(part)
    is_place = isinstance(container, list) and part.isdecimal() and int(part) < len(container)
    return container[int(part)] if is_place else None


def _at(raw: dict[str, Any], key: str) -> Any:
    found: Any = raw
    for part in key.split("."):
        found = _inside(found, part)
    return found


def _put(raw: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    container: Any = raw
    for part in above:
        container = _inside(container, part)
    if isinstance(container, list):
        container[int(last)] = value
    else:
        container[last] = value
