"""Checks of a user's own software sheet: every setting is one that a scenario has, with a value that it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pydantic import ValidationError

from clustersim.collectives import ALL_REDUCE, algorithms_of
from clustersim.communicator.algorithm import CHOICES
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.hardware import TRANSPORTS
from clustersim.hardware.sheet_catalogue import is_path
from clustersim.model.precision import PRECISIONS
from clustersim.program import bucket_caps
from clustersim.reading import explain, from_python, place_of, read_map
from clustersim.scenario.software_keys import FIELDS, STAYS, SoftwareKeys
from clustersim.software import SOFTWARE, Software, load_software


def checked_software(name: str) -> Software:
    """Return a program by name or file; raise InputError with every wrong setting of its file, each with its line."""
    sheet = load_software(name)
    if is_path(name):
        mistakes = [mistake for key, value in sheet.values.items() for mistake in _mistakes(key, value)]
        if mistakes:
            tree, _ = read_map(SOFTWARE.find(name), "sheet")
            raise InputError(
                place_of(("values", each.key or "", "value"), tree).mistake(
                    each.message, f"values.{each.key}.value", each.got, each.allowed
                )
                for each in mistakes
            )
    return sheet


def _mistakes(key: str, value: Any) -> Iterator[Mistake]:
    try:
        if key in FIELDS:
            yield from _of_field(key, value)
        elif key in STAYS:
            _CHECKS[key](value)
        else:
            raise unknown_name("setting of a software", key, [*FIELDS, *STAYS])
    except InputError as error:
        yield from (Mistake(each.message, key, got=each.got, allowed=each.allowed) for each in error.mistakes)


def _of_field(key: str, value: Any) -> Iterator[Mistake]:
    settings = {key: value}
    try:
        SoftwareKeys.model_validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        for problem in explain(error, from_python(settings), SoftwareKeys):
            yield Mistake(problem.mistake.message, key, got=problem.mistake.got, allowed=problem.mistake.allowed)


def _precisions(value: Any) -> None:
    for each in value if isinstance(value, list) else [value]:
        PRECISIONS[str(each)]


def _one_of(known: tuple[Any, ...], value: Any) -> None:
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        allowed = ", ".join(map(str, known))
        raise InputError(f"expected one of {allowed} (got {value!r})", got=str(value), allowed=allowed)


def _algorithm(value: Any) -> None:
    known = [*algorithms_of("all-reduce"), *CHOICES]
    if value not in known:
        raise unknown_name(ALL_REDUCE.kind, str(value), known)


_CHECKS: dict[str, Callable[[Any], object]] = {
    "transport": lambda value: TRANSPORTS.load(str(value)),
    "precision": _precisions,
    "gradient_precision": partial(_one_of, ("fp32", "fp16", "bf16")),
    "algorithm": _algorithm,
    "buckets": bucket_caps,
    "overlap": partial(_one_of, (True, False)),
}
"""Checks of the settings that a scenario overrides with keys of its own."""
