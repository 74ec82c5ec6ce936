"""The JSON Schema of a scenario file, for editors: the keys and values that a file may hold.

A file that extends another may leave keys out and give parts of maps, so only `load_scenario` reports missing
keys. Draft 2020-12, without features that editors for draft 7 reject.
"""

from __future__ import annotations

import json
from typing import Any

from clustersim.data import shipped_files
from clustersim.hardware import TRANSPORTS
from clustersim.model.catalogue import MODELS
from clustersim.model.precision import PRECISIONS
from clustersim.scenario.point import Point
from clustersim.scenario.schema_unions import joined
from clustersim.scenario.software_keys import NAME_OF
from clustersim.scenario.sweep_keys import NOT_IN_CASES
from clustersim.spec import SOFTWARE_MARK

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NEVER_AXES = ("$schema", "name", "description", "extends", "cases", "sweep", "measured", "source", "note")
_OF_SWEEP = ("SweepKeys", "SweepDraws", "DrawRange")
_HOISTED_CHARACTERS = 120


def json_schema() -> Schema:
    """Return the JSON Schema of a scenario file: every value is also allowed as a list, a sweep axis."""
    plain, hoist = plain_schema(), _Hoist()
    definitions: Schema = {
        name: part if name in _OF_SWEEP else _with_axes(part, hoist) for name, part in plain["$defs"].items()
    }
    properties = _with_axes(plain, hoist)["properties"]
    return {
        "$schema": DIALECT,
        "title": "clustersim scenario",
        "description": "A training and its cluster. Any value may be a list: each of its elements gets a forecast.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "if": {"not": {"anyOf": [{"required": [key]} for key in ("extends", "cases", "sweep")]}},
        "then": {"required": plain["required"]},
        "$defs": definitions | hoist.definitions,
    }


def plain_schema() -> Schema:
    """Return the JSON Schema of one point as written in a file, without sweep axes and with readable names."""
    schema = joined(Point.model_json_schema())
    schema["properties"]["topology"] = _or_name(schema["properties"]["topology"])
    for key, names in _names().items():
        schema["properties"][key]["examples"] = names
    schema["properties"]["precision"]["enum"] = list(PRECISIONS)
    required = [key for key in schema["required"] if key != "strategy"]
    for key in ("transport", "precision"):
        del schema["properties"][key]["default"]  # that of the software
    cleaned: Schema = _cleaned(schema, _readable(schema["$defs"]))
    cleaned["$defs"]["JobPoint"] = _of_jobs(cleaned)
    for part in cleaned["properties"]["cases"].get("anyOf", [cleaned["properties"]["cases"]]):
        if part.get("type") == "object":
            part["additionalProperties"] = {"type": "object", **_case_keys(cleaned)}
    cleaned["required"] = required
    return cleaned


def _case_keys(schema: Schema) -> Schema:
    """Return the keys of one case: those of the scenario but for some."""
    keys = [key for key in schema["properties"] if key not in NOT_IN_CASES]
    return {
        "patternProperties": {f"^{key}$": {"$ref": f"#/properties/{key}"} for key in keys},
        "additionalProperties": False,
    }


def _of_jobs(schema: Schema) -> Schema:
    """Return the schema of a job, whose keys are those of a scenario but for the shared ones."""
    job: Schema = schema["$defs"]["JobPoint"]
    same = {f"^{key}$": {"$ref": f"#/properties/{key}"} for key in job["properties"] if key in schema["properties"]}
    own = {key: value for key, value in job["properties"].items() if key not in schema["properties"]}
    return job | {"properties": own, "patternProperties": same}


def _names() -> dict[str, list[str]]:
    """Return the names that an editor may offer for keys that take a name or a file."""
    return {"model": list(MODELS), "topology": list(shipped_files("topologies")), "transport": list(TRANSPORTS)}


def _or_name(topology: Schema) -> Schema:
    described = {"description": topology["description"]}
    union = {key: value for key, value in topology.items() if key == "$ref"}
    return described | {"anyOf": [{"type": "string"}, union]}


def _readable(definitions: Schema) -> dict[str, str]:
    """Return short names for definitions; pydantic adds the module where two classes have one name."""
    return {name: ".".join(name.split("__")[-2:]) for name in definitions}


def _cleaned(part: Any, names: dict[str, str]) -> Any:
    """Remove what only a validator needs: titles, discriminators, `required` below the top level."""
    if isinstance(part, list):
        return [_cleaned(element, names) for element in part]
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("type"), list) and "pattern" in part:
        return _unit(part)
    cleaned: Schema = {}
    for key, value in part.items():
        if key == "allOf":
            cleaned[key] = value
        elif key in ("properties", "$defs"):
            given = {name: child for name, child in value.items() if SOFTWARE_MARK not in child}
            cleaned[key] = {names.get(name, name): _cleaned(child, names) for name, child in given.items()}
        elif key == "$ref":
            cleaned[key] = f"#/$defs/{names[value.rsplit('/', 1)[1]]}"
        elif key == "default":
            cleaned |= {} if value in (None, "") else {key: _without_software(value)}
        elif key not in ("title", "discriminator", "required"):
            cleaned["anyOf" if key == "oneOf" else key] = _cleaned(value, names)
    return cleaned


def _without_software(default: Any) -> Any:
    """Return a default without the fields that only `software` gives."""
    if not isinstance(default, dict):
        return default
    names = {str(path[-1]) for path in NAME_OF}
    return {key: _without_software(value) for key, value in default.items() if key not in names}


def _unit(part: Schema) -> Schema:
    """Return the schema of a quantity: text with a unit, or the number 0."""
    text = {"type": "string", "pattern": part["pattern"]}
    return {key: part[key] for key in ("description", "examples") if key in part} | {"anyOf": [text, {"const": 0}]}


class _Hoist:
    """Moves parts that occur twice, as a value and as the element of an axis, to definitions."""

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._names: dict[str, str] = {}

    def __call__(self, key: str, part: Schema) -> Schema:
        text = json.dumps(part, sort_keys=True)
        if len(text) < _HOISTED_CHARACTERS:
            return part
        if text not in self._names:
            others = sum(1 for name in self.definitions if name.partition("-")[0] == key)
            name = f"{key}-{others + 1}" if others else key
            self._names[text] = name
            self.definitions[name] = part
        return {"$ref": f"#/$defs/{self._names[text]}"}


def _with_axes(part: Any, hoist: _Hoist) -> Any:
    """Return a part in which every property may also be a list of its values."""
    if isinstance(part, list):
        return [_with_axes(element, hoist) for element in part]
    if not isinstance(part, dict):
        return part
    swept = {
        key: value if key == "allOf" else _with_axes(value, hoist) for key, value in part.items() if key != "properties"
    }
    if "properties" in part:
        swept["properties"] = {
            key: value if key in _NEVER_AXES else _axis(key, _with_axes(value, hoist), hoist)
            for key, value in part["properties"].items()
        }
    return swept


def _axis(key: str, value: Schema, hoist: _Hoist) -> Schema:
    about = {name: value[name] for name in ("description", "default", "examples") if name in value}
    core = {name: part for name, part in value.items() if name not in about}
    if "const" in core:  # the tag of a union: a list of tags is valid for every member in it
        return about | {"anyOf": [core, {"type": "array", "contains": core}]}
    core = hoist(key, core)
    return about | {"anyOf": [core, {"type": "array", "items": core, "minItems": 1}]}
