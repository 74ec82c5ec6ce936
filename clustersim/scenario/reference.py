"""The reference page of all scenario keys, generated from the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from clustersim.common_words import hint_for_word
from clustersim.errors import InputError, hint_after, nearest, squashed
from clustersim.scenario.schema import Schema, plain_schema
from clustersim.scenario.schema_unions import keys_of_members

_HEAD = """# Scenario keys

This page is generated from the models that read a scenario (`make reference`); `clustersim schema` prints the same
as JSON Schema for editors, and `clustersim explain KEY` prints one key. [The 40 most common keys](common-keys.md)
are on a page of their own, with an example each.

A scenario is a YAML file. Quantities have a unit: `56 Gbit/s`, `600 ns`, `25 MiB`. Any value may be a list of
values, and then there is a forecast for each of them: `num_gpus: [1, 32, 128]`. A map may be left out if all its
keys have a default. A path is relative to the file that contains it. `--set a.b=value` changes a key from the
command line.
"""


def reference_page() -> str:
    """Return the page in Markdown: the top-level keys, then every map below them."""
    schema = plain_schema()
    definitions: Schema = schema["$defs"]
    titles = dict(_titles(schema, definitions))
    parts = [_HEAD, "## Top level\n", _table(schema, titles, schema["required"])]
    for name, title in titles.items():
        about = " ".join(definitions[name].get("description", "").split("\n\n")[0].split())
        parts += [f"## {title}\n", *([f"{about}\n"] if about else []), _table(definitions[name], titles, [])]
    return "\n".join(parts)


def key_paths() -> list[str]:
    """Return every key of a scenario in the order of the page, such as `topology.link`."""
    return list(_all_entries())


def table_with_examples(examples: Mapping[str, str]) -> str:
    """Return a table of some keys of `key_paths`, each with a line of YAML, and a link to its place on the page of all.

    Long texts end with `…`; that page and `explanation` have all of them.
    """
    schema = plain_schema()
    titles, entries = dict(_titles(schema, schema["$defs"])), _all_entries()
    sections = {path: title for name, title in titles.items() for path in _of_section(name, title, schema)}
    rows = ["| key, example | takes | meaning |", "|---|---|---|"]
    for path, example in examples.items():
        part, definition = entries[path]
        default = _default_of(path, part, definition)
        takes = brief(_takes(part, titles))
        if default:
            takes += f" ({default if default == 'required' else f'default {default}'})"
        key = f"[`{path}`](scenario.md#{_anchor(sections.get(path, 'Top level'))})<br>`{example}`"
        rows.append(_row(key, takes, brief(part["description"])))
    return "\n".join(rows) + "\n"


def _anchor(title: str) -> str:
    """Return the anchor that a heading has in Markdown."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def brief(text: str, longest: int = 160) -> str:
    """Return the first of several meanings, and of a long text the beginning, to the end of a clause.

    >>> brief("one of `a`, `b` (which is c, too), or a number; or: something else", longest=40)
    'one of `a`, `b` (which is c, too) …'
    """
    first = text.partition("; or: ")[0]
    if len(first) <= longest:
        return first
    ends = [
        end for end in range(longest) if first[end : end + 2] in {", ", "; ", ". ", ": "} and _is_whole(first[:end])
    ]
    return f"{first[: ends[-1]]} …" if ends else first


def _is_whole(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("`") % 2 == 0


def explanation(key: str) -> str:
    """Return what a key takes and means, wherever it occurs: `link` and `topology.link` both find the latter.

    Raise InputError for a key that does not exist, with the nearest one or what it is called here.
    """
    schema = plain_schema()
    titles = dict(_titles(schema, schema["$defs"]))
    entries = _all_entries()
    found = {path: entry for path, entry in entries.items() if f".{squashed(path)}".endswith(f".{squashed(key)}")}
    if not found:
        near = nearest(key, sorted({path.rpartition(".")[2] for path in entries}))
        message = f"no key of a scenario is called '{key}'{hint_after(hint_for_word(key), near)}"
        raise InputError(message, got=key, allowed="a key, as in docs/reference/scenario.md")
    return "\n\n".join(_explained(path, *entry, titles) for path, entry in found.items())


def _all_entries() -> dict[str, tuple[Schema, Schema]]:
    """Return each key of a scenario by its path, with its schema, and that of the map that has it."""
    schema = plain_schema()
    titles = dict(_titles(schema, schema["$defs"]))
    return {**_entries("", schema), **dict(_inner_entries(schema, titles))}


def _entries(where: str, definition: Schema) -> dict[str, tuple[Schema, Schema]]:
    """Return each key of a map with its schema, and the map's."""
    return {f"{where}.{key}".lstrip("."): (part, definition) for key, part in definition["properties"].items()}


def _inner_entries(schema: Schema, titles: dict[str, str]) -> Iterator[tuple[str, tuple[Schema, Schema]]]:
    for name, title in titles.items():
        yield from _of_section(name, title, schema).items()


def _of_section(name: str, title: str, schema: Schema) -> dict[str, tuple[Schema, Schema]]:
    return _entries(title.strip("`").partition(":")[0], schema["$defs"][name])


def _explained(path: str, part: Schema, definition: Schema, titles: dict[str, str]) -> str:
    """Return the text about one key."""
    members = keys_of_members(definition)
    key = path.rpartition(".")[2]
    of = [member for member, keys in members.items() if key in keys]
    default = _default_of(path, part, definition)
    lines = [path, f"  takes: {_takes(part, titles)}", f"  default: {default}" if default else ""]
    lines += [f"  of: {', '.join(of)}"] if 0 < len(of) < len(members) else []
    inner = [name for reference, _ in _references(part) for name in titles if name == reference]
    lines += [f"  keys: {', '.join(_keys(plain_schema()['$defs'][name]))}" for name in inner]
    lines += wrap(part.get("description", ""), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(line.replace("`", "") for line in lines if line)


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
        rows.append(_row(f"`{key}`", _takes(part, titles), default, f"{part.get('description', '')}{of}"))
    return "\n".join(rows) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _default_of(path: str, part: Schema, definition: Schema) -> str:
    return "required" if path.rpartition(".")[2] in definition.get("required", []) else _default(part)


def _default(part: Schema) -> str:
    if "default" not in part:
        return ""
    value = part["default"]
    if isinstance(value, dict):  # its keys have their own defaults
        return f"`{{kind: {value['kind']}}}`" if "kind" in value else ""
    return f"`{_scalar(value)}`"


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _takes(part: Schema, titles: dict[str, str]) -> str:
    """Return text for the values that a key takes."""
    if "anyOf" in part and "pattern" in part["anyOf"][0]:
        return f"a quantity such as `{part['examples'][0]}`"
    if "anyOf" in part:
        return _choices(_merged(list(_alternatives(part))), titles)
    if "$ref" in part:
        return _choices([part], titles)
    if "enum" in part or "const" in part:
        return _several([f"`{name}`" for name in part.get("enum", [part.get("const")])])
    if part.get("type") == "array":
        return f"a list, each {_takes(part.get('items', {}), titles)}"
    if part.get("type") == "object" and (part.get("additionalProperties") is True or "patternProperties" in part):
        return "a map of keys of the scenario"
    if part.get("type") == "object":
        return f"a map, each value {_takes(part.get('additionalProperties') or {}, titles)}"
    words = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "`true` or `false`"}
    return words.get(part.get("type", ""), "anything") + _bounds(part)


def _alternatives(part: Schema) -> Iterator[Schema]:
    """Yield the values that a part allows, those of a choice within a choice too, without null."""
    if "anyOf" in part and "pattern" not in part["anyOf"][0]:
        for choice in part["anyOf"]:
            yield from _alternatives(choice)
    elif part.get("type") != "null":
        yield part


def _merged(choices: list[Schema]) -> list[Schema]:
    """Return the choices with one number for several, with the widest bounds, and without what a boolean covers."""
    types = [choice.get("type") for choice in choices]
    whole = [choice for choice in choices if not ("boolean" in types and isinstance(choice.get("const"), bool))]
    for kind in ("integer", "number"):
        of_kind = [choice for choice in whole if choice.get("type") == kind]
        if len(of_kind) > 1:
            shared = set.intersection(*(set(choice) for choice in of_kind)) & {*_LOWEST, *_HIGHEST}
            bounds = {key: (min if key in _LOWEST else max)(choice[key] for choice in of_kind) for key in shared}
            whole = [choice for choice in whole if choice.get("type") != kind] + [{"type": kind, **bounds}]
    return whole


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


_LOWEST = {"minimum": "at least", "exclusiveMinimum": "above"}
_HIGHEST = {"maximum": "at most", "exclusiveMaximum": "below"}


def _bounds(part: Schema) -> str:
    words = {**_LOWEST, **_HIGHEST, "multipleOf": "a multiple of"}
    said = [
        f"{text} {part[key]:.4g}" if isinstance(part[key], float) else f"{text} {part[key]}"
        for key, text in words.items()
        if key in part
    ]
    return ", " + ", ".join(said) if said else ""
