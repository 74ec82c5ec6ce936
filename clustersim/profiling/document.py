"""The profile as written: `clustersim.profile/1`, rounded, written atomically."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

SCHEMA = "clustersim.profile/1"
TOOL_VERSION = "2"
_DIGITS = 4
_WHOLE_ONLY = " only"  # suffix of a ledger key of a point with only whole iterations, until its layers are measured too
_IGNORED_KEYS = ("name", "also")


def file_stem(model: str, device: str, autotuned: bool) -> str:
    """Return the stem of a profile's file names.

    >>> file_stem("resnet50", "NVIDIA H200", autotuned=False)
    'resnet50-nvidia-h200-no-autotune'
    """
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return f"{model}-{slug}{'' if autotuned else '-no-autotune'}"


def round_key(key: str, number: int) -> str:
    """Return a measurement's key in the ledger, with a prefix for rounds after the first.

    >>> round_key("node", 1), round_key("node", 2)
    ('node', 'round 2: node')
    """
    return key if number == 1 else f"round {number}: {key}"


def assemble(
    identity: Mapping[str, Any], measured: Mapping[str, Any], skipped: Sequence[Mapping[str, Any]], compact: bool
) -> dict[str, Any]:
    """Return the profile of all measurements: every complete point.

    `compact` writes one row for layers of one shape, with the others' names under `also`. A point with only whole
    iterations has no rows of layers. Measurements of several rounds are averaged (`average_of_rounds`).
    """
    by_key: dict[str, list[Any]] = {}
    for key, value in measured.items():
        by_key.setdefault(re.sub(r"^round \d+: ", "", key), []).append(value)
    measured = {key: average_of_rounds(values) for key, values in by_key.items()}
    layers: list[dict[str, Any]] = []
    whole: list[dict[str, Any]] = []
    for key, entry in measured.items():
        if not (isinstance(entry, dict) and "whole" in entry):
            continue
        if key.endswith(_WHOLE_ONLY) and key.removesuffix(_WHOLE_ONLY) in measured:
            continue
        point = dict(entry["point"])
        point_rows = [_row(layer, point, measured[layer["key"]]) for layer in entry["layers"]]
        layers += merged(point_rows) if compact else point_rows
        whole.append({**point, **entry["whole"], "sum_of_layers": _sum_of_layers(point_rows) if point_rows else None})
    return rounded(
        {
            "schema": SCHEMA,
            "tool": TOOL_VERSION,
            "model": identity["model"],
            "device": identity["device"],
            "software": identity["software"],
            "flags": identity["flags"],
            "layers": layers,
            "whole": whole,
            "optimizers": measured.get("optimizers"),
            "node": measured.get("node"),
            "skipped": list(skipped),
        }
    )


def average_of_rounds(values: Sequence[Any]) -> Any:
    """Return the average over rounds: of numbers the mean without the lowest and the highest quarter.

    A mean, not a median: means of layers add up to the mean of their sum, even if the machine's speed changes between
    rounds. Numbers of samples are added; everything else is from the first round, which may have more.

    >>> average_of_rounds([{"a_s": 1.0, "samples": 5, "op": "x"}, {"a_s": 2.0, "samples": 5, "op": "x"}])
    {'a_s': 1.5, 'samples': 10, 'op': 'x'}
    """
    first = values[0]
    if len(values) == 1 or isinstance(first, str):
        return first
    if isinstance(first, Mapping):
        found = {key: average_of_rounds([value[key] for value in values if key in value]) for key in first}
        return found | ({"samples": sum(value["samples"] for value in values)} if "samples" in first else {})
    if isinstance(first, list | tuple):
        return [average_of_rounds(each) for each in zip(*values, strict=True)]
    if isinstance(first, float) and all(isinstance(value, float) for value in values):
        drop = len(values) // 4
        return fmean(sorted(values)[drop : len(values) - drop])
    return first


def merged(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for all rows that differ only in their names.

    >>> merged([{"name": "a", "x": 1}, {"name": "b", "x": 1}, {"name": "c", "x": 2}])
    [{'name': 'a', 'x': 1, 'also': ['b']}, {'name': 'c', 'x': 2}]
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        key = json.dumps({name: value for name, value in row.items() if name not in _IGNORED_KEYS}, sort_keys=True)
        if key in found and "fused" not in row:
            found[key].setdefault("also", []).append(row["name"])
        else:
            found[f"{key} {len(found)}" if key in found else key] = dict(row)
    return list(found.values())


def rounded(value: Any) -> Any:
    """Return a document with its numbers rounded to four significant digits.

    >>> rounded({"forward_s": 0.000123456, "batch": 8})
    {'forward_s': 0.0001235, 'batch': 8}
    """
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Write a profile atomically, one row per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        part.write_bytes(to_text(document).encode())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def to_text(document: Mapping[str, Any]) -> str:
    """Return a profile as JSON with one layer per line.

    >>> print(to_text({"schema": "s", "layers": [{"name": "a"}, {"name": "b"}]}), end="")
    {
    "schema": "s",
    "layers": [
    {"name": "a"},
    {"name": "b"}
    ]
    }
    """
    parts = [f"{json.dumps(key)}: {_block(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _block(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in value) + "\n]"
    return json.dumps(value, allow_nan=False)


def _row(layer: Mapping[str, Any], point: Mapping[str, Any], times: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in times.items() if key != "shape"}
    row = {"name": layer["name"], "op": layer["op"], "shape": times["shape"], **point, **rest}
    return row | {"fused": layer["fused"]} if layer["fused"] else row


def _sum_of_layers(rows: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the sum of a point's layer times on the device, and of their launch times on the host."""
    found = {"forward_s": 0.0, "backward_s": 0.0, "host_forward_s": 0.0, "host_backward_s": 0.0}
    launched = True
    for row in rows:
        found["forward_s"] += row["forward_s"]
        found["backward_s"] += row["backward_data_s"] + row["backward_weights_s"]
        launched = launched and "host_s" in row
        if launched:
            found["host_forward_s"] += row["host_s"]["forward"]
            found["host_backward_s"] += row["host_s"]["backward"]
    return {name: seconds if launched or not name.startswith("host") else None for name, seconds in found.items()}
