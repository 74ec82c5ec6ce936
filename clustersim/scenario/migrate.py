"""Rewrites a scenario file from before `software`, so that it gives the same forecast.

A key that says how the program is written moves into `software`. A file that extends no other one also names a program:
`plain`, whose settings are the defaults of that time, or another one. A setting in which that one differs from the file
is written into `software`, or as the key of the scenario that overrides it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from clustersim.errors import InputError, Mistake
from clustersim.scenario.loader import load_scenario
from clustersim.scenario.point import Point
from clustersim.scenario.software_keys import FIELDS, STAYS
from clustersim.software import SOFTWARE, load_software

PLAIN = "plain"

HOST_OF = {
    "megatron": ("megatron", "megatron-2023", "megatron-deepspeed", "nemo-2023", "nemo-2023-autocast"),
    "pytorch-eager": (
        *("eager", "eager-2020", "fms", "huggingface-2021", "huggingface-2021-autocast", "huggingface-2023"),
        *("diffusers-2023", "internlm", "nvidia-gnmt"),
    ),
}
"""The host sheet that each value of `compute.library` stood for; `compiled` for all others."""

_ROUNDS = 4


def migrated(path: Path, software: str = PLAIN) -> str:
    """Return the text of a scenario file with the keys of today, and with this program.

    Raise InputError for a file that is not a map, or whose new scenario is wrong.
    """
    load_software(software)
    document, written = _read(path)
    move_keys(document)
    if "extends" in document:
        return written.text(document)
    _name(document, PLAIN)
    if software != PLAIN:
        wanted = _points(path, written.text(document))
        document["software"]["name"] = software
        for _ in range(_ROUNDS):
            if not _write_differences(document, wanted, _points(path, written.text(document))):
                break
    _leave_out_equal(document)
    return written.text(document)


def _leave_out_equal(document: CommentedMap) -> None:
    """Leave out the settings that the sheet of the program has too."""
    settings = document["software"]
    values = load_software(settings["name"]).values
    for name in [name for name in settings if name != "name" and values.get(name, ...) == settings[name]]:
        del settings[name]
    if list(settings) == ["name"]:
        document["software"] = settings["name"]


def library_host(library: Any) -> str:
    """Return the host sheet that a value of `compute.library` stood for.

    >>> library_host("eager"), library_host("xla")
    ('pytorch-eager', 'compiled')
    """
    return next((host for host, libraries in HOST_OF.items() if library in libraries), "compiled")


def move_keys(document: CommentedMap) -> None:
    """Move every key of a scenario or a job that says how its program is written into its `software`."""
    for job in document.get("jobs") if isinstance(document.get("jobs"), list) else ():
        if isinstance(job, CommentedMap):
            move_keys(job)
    settings = CommentedMap()
    for name, field in FIELDS.items():
        found, value = _taken(document, field.path)
        if found:
            settings[name] = value
    if isinstance(settings.get("library"), list):
        allowed = "one value; write a list of `software` instead"
        got = str(settings["library"])
        raise InputError("a list of libraries needs a list of programs", key="library", got=got, allowed=allowed)
    if "library" in settings:
        settings.setdefault("host", library_host(settings["library"]))
    _move_library_of_rate(document)
    if settings:
        before = document.pop("software", None)
        named = {"name": before} if isinstance(before, str) else before or {}
        _insert(document, CommentedMap({**named, **settings}))


def _move_library_of_rate(document: CommentedMap) -> None:
    compute = document.get("compute")
    rate = compute.get("single_gpu") if isinstance(compute, CommentedMap) else None
    if isinstance(rate, CommentedMap) and "library" in rate:
        rate["software"] = with_kernels(rate.pop("library"))


def with_kernels(library: str) -> str:
    """Return the first program with this library, and with the host that it stood for."""
    wanted = library, library_host(library)
    for name in (PLAIN, *SOFTWARE):
        values = load_software(name).values
        if (values.get("library"), values.get("host")) == wanted:
            return name
    message = f"no shipped software has the kernels of {library}"
    raise InputError(message, key="library", got=library, allowed="the name of a software")


def _taken(node: Any, path: tuple[str | int, ...]) -> tuple[bool, Any]:
    """Remove the value at a path, and maps that it leaves empty; return whether there was one, and the value."""
    if not isinstance(node, CommentedMap) or path[0] not in node:
        return False, None
    if len(path) == 1:
        return True, node.pop(path[0])
    inside = node[path[0]]
    found = _taken(inside, path[1:])
    if found[0] and not inside:
        del node[path[0]]
    return found


def _name(document: CommentedMap, software: str) -> None:
    settings = document.pop("software", {})
    _insert(document, CommentedMap({"name": software, **settings}))
    if "transport" not in document:
        at = list(document).index("software") + 1
        document.insert(at, "transport", "ideal")


def _insert(document: CommentedMap, settings: CommentedMap) -> None:
    """Insert `software` before the transport, the strategy or whatever else comes after the cluster."""
    settings.fa.set_flow_style()
    after = ("transport", "strategy", "parallelism", "precision", "optimizer", "compute", "num_iterations")
    keys = list(document)
    at = min((keys.index(key) for key in after if key in keys), default=len(keys))
    document.insert(at, "software", settings)


def _points(path: Path, text: str) -> list[Point]:
    """Return the points of a scenario as if it were the text of the file at a path."""
    beside = path.with_name(f".{path.stem}.migrating-{os.getpid()}.yaml")
    try:
        beside.write_bytes(text.encode())
        return [each.point for each in load_scenario(beside).points()]
    except OSError as error:
        raise InputError(Mistake(f"cannot be written: {error.strerror}", file=str(beside))) from None
    except InputError as error:
        raise InputError(replace(each, file=str(path)) for each in error.mistakes) from None
    finally:
        beside.unlink(missing_ok=True)


def _write_differences(document: CommentedMap, wanted: list[Point], found: list[Point]) -> bool:
    """Write each setting of a sheet that changes a point; return whether there was one."""
    changed = False
    for old, new in zip(wanted, found, strict=True):
        for name, value in differences(old, new).items():
            changed = True
            if name in FIELDS:
                document["software"][name] = value
            else:
                _put(document, STAYS[name], value)
    return changed


def differences(old: Point, new: Point) -> dict[str, Any]:
    """Return the settings in which the second point differs from the first, with the values of the first."""
    paths = {name: field.path for name, field in FIELDS.items()} | STAYS
    before, after = (json.loads(point.model_dump_json(by_alias=True)) for point in (old, new))
    return {name: _at(before, path) for name, path in paths.items() if _at(before, path) != _at(after, path)}


def _at(values: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _put(document: CommentedMap, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, CommentedMap())
    document[path[-1]] = value


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.preserve_quotes = True
    return yaml


def _read(path: Path) -> tuple[CommentedMap, _Written]:
    try:
        text = path.read_text(encoding="utf-8")
        document = _yaml().load(text)
    except OSError as error:
        raise InputError(Mistake(f"cannot be read: {error.strerror}", file=str(path))) from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise InputError(Mistake(f"is not YAML: {str(error).splitlines()[0]}", file=str(path))) from None
    if not isinstance(document, CommentedMap):
        raise InputError(Mistake("a scenario is a map of keys", file=str(path)))
    return document, _Written.of(text, document)


class _Written(NamedTuple):
    """A file as it was written: the lines before the first key, and the value and the lines of each key."""

    head: str
    values: dict[str, Any]
    blocks: dict[str, str]

    @classmethod
    def of(cls, text: str, document: CommentedMap) -> _Written:
        lines = text.splitlines(keepends=True)
        starts = {key: _first_line(lines, document.lc.key(key)[0]) for key in document}
        ends = [*list(starts.values())[1:], len(lines)]
        blocks = {key: "".join(lines[start:end]) for (key, start), end in zip(starts.items(), ends, strict=True)}
        head = "".join(lines[: min(starts.values(), default=0)])
        return cls(head, json.loads(json.dumps(document, default=str)), blocks)

    def text(self, document: CommentedMap) -> str:
        """Return the text of a document, with the lines of each key that has its old value as they were written."""
        parts = [self.head]
        for key, value in document.items():
            old = self.blocks.get(key, "")
            if old and self.values[key] == json.loads(json.dumps(value, default=str)):
                parts.append(old if old.endswith("\n") else f"{old}\n")
                continue
            comments = "".join(line for line in old.splitlines(keepends=True) if line.startswith("#"))
            parts.append(comments + _dumped(document, key))
        return "".join(parts)


def _first_line(lines: Sequence[str], number: int) -> int:
    """Return the number of the first of the lines of comment right above a line; the line's own if there is none.

    Comments at the top of a file are of the file.
    """
    first = number
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return first if first else number


def _dumped(document: CommentedMap, key: str) -> str:
    """Return the text of one key, with the comments inside of it."""
    alone = CommentedMap({key: document[key]})
    if key in document.ca.items:
        alone.ca.items[key] = document.ca.items[key]
    stream = io.StringIO()
    _yaml().dump(alone, stream)
    lines = stream.getvalue().splitlines()
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "\n".join(lines) + "\n"
