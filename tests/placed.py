"""Scenarios of tests whose layouts, strategies and kernels hold fields of the program beside others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim.scenario.software_keys import FIELDS, by_name


def placed(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario with each field of the program under `software`; the program is `plain` if not named.

    A field of the program is looked for where the program's own classes have it: `parallelism: {messages: paired}`
    becomes `software: {messages: paired}`. What `software` has already stays.
    """
    software: dict[str, Any] = {}
    for name, field in FIELDS.items():
        asked, found = _without(asked, field.path)
        for value in found:
            software[name] = value
    return {**asked, "software": {"name": "plain", **software, **by_name(asked.get("software", {}))}}


def _without(node: Any, path: tuple[str | int, ...]) -> tuple[Any, list[Any]]:
    """Return a tree without the value at a path, and that value in a list; an empty one if it has none."""
    if not isinstance(node, Mapping) or path[0] not in node:
        return node, []
    others = {key: value for key, value in node.items() if key != path[0]}
    if len(path) == 1:
        return others, [node[path[0]]]
    inside, found = _without(node[path[0]], path[1:])
    return ({**others, path[0]: inside} if inside or not found else others), found
