"""The reference page of all scenario keys, generated from the schema."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from clustersim.common_words import hint_for_word
from clustersim.errors import InputError, hint_after, nearest, squashed
from clustersim.scenario.schema import Schema, plain_schema
from clustersim.scenario.schema_unions import keys_of_members

_HEAD = """# Scenario keys

This page is generated from the models that read a scenario (`make docs`); `clustersim schema` prints the same
as JSON Schema for editors.

A scenario is a YAML file. Quantities have a unit: `56 Gbit/s`, `600 ns`, `25 MiB`. Any value may be a list of
values, and then there is a forecast for each of them: `num_gpus: [1, 32, 128]`. A map may be left out if all its
keys have a default. A path is relative to the file that contains it. `--set a.b=value` changes a key from the
command line.

## The keys that most scenarios need

The first five describe a training; the software decides the rest unless a key says otherwise.
"""

COMMON = (
    *("model", "num_gpus", "batch.per_gpu", "batch.global", "topology", "software.name", "precision", "optimizer.kind"),
    *("parallelism.data", "parallelism.tensor", "parallelism.pipeline", "parallelism.expert", "parallelism.context"),
    *("parallelism.sharding", "parallelism.sequence_parallel", "parallelism.micro_batches", "parallelism.schedule"),
    *("parallelism.recompute", "parallelism.offload", "strategy.kind", "strategy.algorithm", "strategy.overlap"),
    *("strategy.buckets", "strategy.servers.num", "strategy.servers.on", "transport", "topology.kind", "topology.link"),
    *("topology.host", "topology.gpu", "topology.num_hosts", "topology.nics", "topology.oversubscription"),
    *("compute.single_gpu.samples_per_s", "input.decode", "stragglers.kind", "failures.gpu", "dataset_size"),
    *("epochs", "replicates"),
)
"""The keys that the reference page begins with."""


def reference_page() -> str:
    """Return the page in Markdown: the top-level keys, then every map below them."""
    schema = plain_schema()
    definitions: Schema = schema["$defs"]
    titles = dict(_titles(schema, definitions))
    parts = [_HEAD, _common(schema, titles), "## Top level\n", _table(schema, titles, schema["required"])]
    for name, title in titles.items():
        about = " ".join(definitions[name].get("description", "").split("\n\n")[0].split())
        parts += [f"## {title}\n", *([f"{about}\n"] if about else []), _table(definitions[name], titles, [])]
    return "\n".join(parts)


def explanation(key: str) -> str:
    """Return what a key takes and means, wherever it occurs: `link` and `topology.link` both find the latter.

    Raise InputError for a key that does not exist, with the nearest one or what it is called here.
    """
    schema = plain_schema()
    titles = dict(_titles(schema, schema["$defs"]))
    entries = {**_entries("", schema), **{path: entry for path, entry in _inner_entries(schema, titles)}}
    found = {path: entry for path, entry in entries.items() if f".{squashed(path)}".endswith(f".{squashed(key)}")}
    if not found:
        near = nearest(key, sorted({path.rpartition(".")[2] for path in entries}))
        message = f"no key of a scenario is called '{key}'{hint_after(hint_for_word(key), near)}"
        raise InputError(message, got=key, allowed="a key, as in docs/reference/scenario.md")
    return "\n\n".join(_explained(path, *entry, titles) for path, entry in found.items())


def _entries(where: str, definition: Schema) -> dict[str, tuple[Schema, Schema]]:
    """Return each key of a map with its schema, and the map's."""
    return {f"{where}.{key}".lstrip("."): (part, definition) for key, part in definition["properties"].items()}


def _inner_entries(schema: Schema, titles: dict[str, str]) -> Iterator[tuple[str, tuple[Schema, Schema]]]:
    for name, title in titles.items():
        yield from _entries(title.strip("`").partition(":")[0], schema["$defs"][name]).items()


def _explained(path: str, part: Schema, definition: Schema, titles: dict[str, str]) -> str:
    """Return the text about one key."""
    members = keys_of_members(definition)
    key = path.rpartition(".")[2]
    of = [member for member, keys in members.items() if key in keys]
    default = "required" if key in definition.get("required", []) else _default(part)
    lines = [path, f"  takes: {_takes(part, titles)}", f"  default: {default}" if default else ""]
    lines += [f"  of: {', '.join(of)}"] if 0 < len(of) < len(members) else []
    inner = [name for reference, _ in _references(part) for name in titles if name == reference]
    lines += [f"  keys: {', '.join(_keys(plain_schema()['$defs'][name]))}" for name in inner]
    lines += wrap(part.get("description", ""), 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(line.replace("`", "") for line in lines if line)


def _common(schema: Schema, titles: dict[str, str]) -> str:
    rows = {path: _at(schema, path.split(".")) for path in COMMON}
    return _rows(rows, titles, schema["required"], {})


def _at(schema: Schema, path: list[str]) -> Schema:
    """Return the schema of the key at a path."""
    part, definitions = schema, schema["$defs"]
    for number, key in enumerate(path):
        part = part["properties"][key]
        if number + 1 < len(path):
            part = next(
                definitions[name] for name, _ in _references(part) if path[number + 1] in _keys(definitions[name])
            )
    return part


def _keys(definition: Schema) -> Schema:
    return dict(definition.get("properties", {}))


def _titles(schema: Schema, definitions: Schema) -> Iterator[tuple[str, str]]:
    """Yield each definition once, with its place in a scenario: `topology: {kind: torus}`."""
    waiting = [(key, part) for key, part in schema["properties"].items()]
    seen: set[str] = set()
    while waiting:
        where, part = waiting.pop(0)
        inner = []
        for name, is_element in _references(part):
            if name in seen:
                continue
            seen.add(name)
            tag = _tag(definitions[name])
            held = f"{{{tag}}}" if tag else "{...}"
            yield name, f"`{where}: {f'[{held}]' if is_element else held}`"
            inner += [(f"{where}.{key}", child) for key, child in definitions[name]["properties"].items()]
        waiting = inner + waiting


def _references(part: Any, is_element: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the definitions that a part refers to, and whether as elements of a list."""
    if isinstance(part, list):
        for child in part:
            yield from _references(child, is_element)
    elif isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rsplit("/", 1)[1], is_element
        for key in ("anyOf", "items", "additionalProperties"):
            yield from _references(part.get(key), is_element or key == "items")


def _tag(definition: Schema) -> str:
    """Return the tag of a member of a union, such as `kind: torus`."""
    for key in ("kind", "template"):
        if definition["properties"].get(key, {}).get("enum") and "allOf" in definition:
            return f"{key}: ..."
    return ""


def _table(definition: Schema, titles: dict[str, str], required: list[str]) -> str:
    members = keys_of_members(definition)
    of = {key: [member for member, keys in members.items() if key in keys] for key in definition["properties"]}
    some = {key: names for key, names in of.items() if members and len(names) < len(members)}
    return _rows(definition["properties"], titles, required, some)


def _rows(keys: Schema, titles: dict[str, str], required: list[str], some: dict[str, list[str]]) -> str:
    """Return a table of keys; `some` has the members of a union that have a key which others have not."""
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key, part in keys.items():
        default = "required" if key in required else _default(part)
        of = f" (of {', '.join(f'`{name}`' for name in some[key])})" if some.get(key) else ""
        cells = (f"`{key}`", _takes(part, titles), default, f"{part.get('description', '')}{of}")
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _default(part: Schema) -> str:
    if "default" not in part:
        return ""
    value = part["default"]
    if isinstance(value, dict):
        given = ", ".join(f"{key}: {_scalar(inner)}" for key, inner in value.items() if inner is not None)
        return f"`{{{given}}}`" if given else ""
    return f"`{_scalar(value)}`"


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _takes(part: Schema, titles: dict[str, str]) -> str:
    """Return text for the values that a key takes."""
    if "anyOf" in part and "pattern" in part["anyOf"][0]:
        return f"a quantity such as `{part['examples'][0]}`"
    if "anyOf" in part:
        return _choices([choice for choice in part["anyOf"] if choice.get("type") != "null"], titles)
    if "$ref" in part:
        return _choices([part], titles)
    if "enum" in part or "const" in part:
        return _several([f"`{name}`" for name in part.get("enum", [part.get("const")])])
    if part.get("type") == "array":
        return f"a list, each {_takes(part.get('items', {}), titles)}"
    if part.get("type") == "object" and part.get("additionalProperties") is True:
        return "a map of keys of the scenario"
    if part.get("type") == "object":
        return f"a map, each value {_takes(part.get('additionalProperties') or {}, titles)}"
    words = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "`true` or `false`"}
    return words.get(part.get("type", ""), "anything") + _bounds(part)


def _choices(choices: list[Schema], titles: dict[str, str]) -> str:
    """Return text for the values that a key takes; members of a union by their tags."""
    maps = [titles[choice["$ref"].rsplit("/", 1)[1]] for choice in choices if "$ref" in choice]
    others = [_takes(choice, titles) for choice in choices if "$ref" not in choice]
    tags = [title.strip("`").partition("{")[2].partition("}")[0] for title in maps]
    described = [f"a map with `{tags[0]}`" if tags[0] != "..." else f"a map {maps[0]}"] if maps else []
    return _several(list(dict.fromkeys([*others, *described, *(f"`{tag}`" for tag in tags[1:])])))


def _several(choices: list[str]) -> str:
    choices = list(dict.fromkeys(choices))
    return ", ".join(choices[:-1]) + (" or " if len(choices) > 1 else "") + choices[-1]


def _bounds(part: Schema) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
        "multipleOf": "a multiple of",
    }
    said = [
        f"{text} {part[key]:.4g}" if isinstance(part[key], float) else f"{text} {part[key]}"
        for key, text in words.items()
        if key in part
    ]
    return ", " + ", ".join(said) if said else ""
