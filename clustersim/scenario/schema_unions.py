"""Joins the members of a union in the JSON Schema: one definition, with each key once.

Members that a `kind` or a `template` tells apart share many keys. The joined definition has all keys of all members.
For each member a condition on the tag says which of them it has.
"""

from __future__ import annotations

import json
from typing import Any

Schema = dict[str, Any]


def joined(schema: Schema) -> Schema:
    """Return a schema of pydantic in which each union with a tag is one definition, named after its key."""
    return _Joining(schema["$defs"]).whole(schema)


def keys_of_members(definition: Schema) -> dict[str, list[str]]:
    """Return the keys of each member of a joined union by the value of its tag; empty for another definition."""
    found: dict[str, list[str]] = {}
    for rule in definition.get("allOf", ()):
        (tag,) = rule["if"]["properties"].values()
        found[tag["const"]] = rule["then"]["propertyNames"]["enum"]
    return found


class _Joining:
    def __init__(self, definitions: Schema) -> None:
        self._given = definitions
        self._made: Schema = {}

    def whole(self, schema: Schema) -> Schema:
        """Return the schema with joined unions, and with those definitions only that it still refers to."""
        top = self._part({key: value for key, value in schema.items() if key != "$defs"}, "")
        kept: Schema = {}
        waiting = _references(top)
        while waiting:
            name = waiting.pop()
            if name not in kept:
                made = self._made.get(name)
                kept[name] = made if made is not None else self._part(self._given[name], "")
                waiting += _references(kept[name])
        order = [*self._given, *self._made]
        return {**top, "$defs": {name: kept[name] for name in order if name in kept}}

    def _part(self, part: Any, key: str) -> Any:
        if isinstance(part, list):
            return [self._part(each, key) for each in part]
        if not isinstance(part, dict):
            return part
        if "discriminator" in part:
            about = {name: value for name, value in part.items() if name in ("description", "default")}
            return about | {"$ref": f"#/$defs/{self._union(part, key)}"}
        return {
            name: {inner: self._part(value, inner) for inner, value in child.items()}
            if name == "properties"
            else self._part(child, key)
            for name, child in part.items()
        }

    def _union(self, part: Schema, key: str) -> str:
        """Return the name of the definition that joins the members of a union."""
        name = key.removesuffix("s").capitalize()
        if name not in self._made:
            self._made[name] = {}
            tag, members = part["discriminator"]["propertyName"], part["discriminator"]["mapping"]
            of_member = {each: self._given[where.rsplit("/", 1)[1]]["properties"] for each, where in members.items()}
            self._made[name] = self._joined(tag, of_member)
        return name

    def _joined(self, tag: str, of_member: dict[str, Schema]) -> Schema:
        every: dict[str, list[Schema]] = {}
        for keys in of_member.values():
            for key, value in keys.items():
                if key != tag and "software" not in value:
                    every.setdefault(key, []).append(self._part(value, key))
        kinds = {"type": "string", "enum": list(of_member), "description": "which of them; it decides the other keys"}
        rules = [
            {
                "if": {"properties": {tag: {"const": member}}, "required": [tag]},
                "then": {"propertyNames": {"enum": [key for key in keys if "software" not in keys[key]]}},
            }
            for member, keys in of_member.items()
        ]
        properties = {tag: kinds} | {key: _one_of(values) for key, values in every.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False, "allOf": rules}


def _one_of(values: list[Schema]) -> Schema:
    """Return the schema of a key that several members have: any of theirs."""
    about = ("description", "default", "title")
    cores = {json.dumps({k: v for k, v in value.items() if k not in about}, sort_keys=True): value for value in values}
    described = dict.fromkeys(value["description"] for value in values if "description" in value)
    description = {"description": "; or: ".join(described)} if described else {}
    defaults = {json.dumps(value.get("default"), sort_keys=True) for value in values}
    default = {"default": values[0]["default"]} if len(defaults) == 1 and "default" in values[0] else {}
    plain = [{k: v for k, v in value.items() if k not in about} for value in cores.values()]
    return description | default | (plain[0] if len(plain) == 1 else {"anyOf": plain})


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for each in part for name in _references(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else []
    return own + [name for value in part.values() for name in _references(value)]
