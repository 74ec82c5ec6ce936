"""Short names of layouts in the words of the field: `FSDP + TP 8`, `PP 4`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from clustersim.errors import InputError
from clustersim.results import Sweep
from clustersim.software import load_software

DEGREES = {"tensor": "TP", "pipeline": "PP", "context": "CP", "expert": "EP"}
"""The usual abbreviation of each degree of parallelism but data parallelism."""

_TELLING = ("recompute", "micro_batches", "offload", "schedule")
"""Keys that tell two layouts of one name apart, the most telling first; then all others."""


def layout_labels(sweep: Sweep, labels: Sequence[Any]) -> list[str] | None:
    """Return a short, distinct name for each label of the axis `parallelism`; None where a label has other words."""
    layouts = [_keys(label, _common(sweep)) for label in labels]
    if len(layouts) < 2 or any(not layout for layout in layouts):
        return None
    return layout_names(layouts, _has_fsdp(sweep))


def layout_names(layouts: Sequence[Mapping[str, str]], has_fsdp: bool) -> list[str]:
    """Return a short, distinct name for each layout of keys and values; `has_fsdp`: zero-3 is called FSDP.

    >>> layout_names([{"tensor": "1", "sharding": "zero-3"}, {"tensor": "8", "sharding": "zero-3"}], True)
    ['FSDP', 'FSDP + TP 8']
    >>> layout_names([{"tensor": "8"}, {"pipeline": "4", "recompute": "full"}, {"data": "32"}], False)
    ['TP 8', 'PP 4', 'DP']
    >>> layout_names([{"tensor": "2", "recompute": "full"}, {"tensor": "2", "recompute": "none"}], False)
    ['TP 2, recompute full', 'TP 2, recompute none']
    """
    parts = [_parts(layout, has_fsdp) for layout in layouts]
    for part in [part for part in parts[0] if all(part in each for each in parts)]:
        shorter = [[other for other in each if other != part] for each in parts]
        if all(shorter):
            parts = shorter
    names = [" + ".join(each) for each in parts]
    alike = [[place for place, other in enumerate(names) if other == name] for name in names]
    return [
        ", ".join(filter(None, (name, _difference([layouts[at] for at in places], places.index(place)))))
        for place, (name, places) in enumerate(zip(names, alike, strict=True))
    ]


def _parts(layout: Mapping[str, str], has_fsdp: bool) -> list[str]:
    """Return the kinds of parallelism of a layout; `DP` where it has no other."""
    kind = layout.get("kind", "grid")
    parts = [kind] if kind != "grid" else []
    if layout.get("sharding", "none") != "none":
        parts.append(_sharding(layout, has_fsdp))
    parts += [f"{short} {layout[key]}" for key, short in DEGREES.items() if layout.get(key, "1") != "1"]
    return parts or ["DP"]


def _sharding(layout: Mapping[str, str], has_fsdp: bool) -> str:
    stage, over = layout["sharding"].removeprefix("zero-"), layout.get("sharding_over")
    if has_fsdp and stage == "3":
        return f"HSDP over {over}" if over else "FSDP"
    return f"ZeRO-{stage} over {over}" if over else f"ZeRO-{stage}"


def _difference(layouts: Sequence[Mapping[str, str]], place: int) -> str:
    """Return the fewest keys and values that tell one of several layouts of one name from the others."""
    if len(layouts) < 2:
        return ""
    keys = list(dict.fromkeys(key for layout in layouts for key in layout))
    differing = [key for key in keys if len({layout.get(key) for layout in layouts}) > 1]
    differing.sort(key=lambda key: _TELLING.index(key) if key in _TELLING else len(_TELLING))
    for number in range(1, len(differing) + 1):
        for chosen in combinations(differing, number):
            if len({tuple(layout.get(key) for key in chosen) for layout in layouts}) == len(layouts):
                return ", ".join(filter(None, (_words(key, layouts[place].get(key)) for key in chosen)))
    return ""


def _words(key: str, value: str | None) -> str:
    """Return a key and its value in words; nothing where a layout does not have the key."""
    name = key.replace("_", " ").replace("micro batches", "micro-batches")
    if value in ("true", "false"):
        return name if value == "true" else f"no {name}"
    return "" if value is None else f"{name} {value}"


def _keys(label: Any, common: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a label such as `paths data=1`, and those that all layouts share; empty if it has others."""
    if not isinstance(label, str) or "{" in label or "[" in label:
        return {}
    words = label.split()
    keys = dict(word.split("=", 1) for word in words if "=" in word)
    plain = [word for word in words if "=" not in word and word != "default"]
    if len(plain) > 1:
        return {}
    return {**common, **keys, **({"kind": plain[0]} if plain else {})}


def _common(sweep: Sweep) -> dict[str, str]:
    """Return the keys with one value in all layouts of a scenario, which labels leave out."""
    given = sweep.scenario.get("parallelism")
    maps = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    if not maps or len(maps) != len(given or ()):
        return {}
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in maps[0].items()
        if not isinstance(value, list | Mapping) and all(key in each and each[key] == value for each in maps)
    }


def _has_fsdp(sweep: Sweep) -> bool:
    """Return whether the program shards all or nothing, as FSDP does, and not in the stages of ZeRO."""
    name = sweep.ran[0].software
    try:
        layouts = load_software(name).layouts if name else ()
    except InputError:
        return False
    return "zero-3" in layouts and "zero-1" not in layouts
