"""The base class of all models that a user writes in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from clustersim.errors import InputError


class Spec(BaseModel):
    """A part of a scenario: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", defer_build=True, frozen=True)


SOFTWARE_MARK = "software"


def of_software(name: str) -> JsonDict:
    """Mark a field that says how a program is written: a scenario gives it as `software: {name: value}` only."""
    return {SOFTWARE_MARK: name}


def is_of_software(field: FieldInfo) -> bool:
    """Return whether a field is marked with `of_software`."""
    return isinstance(field.json_schema_extra, Mapping) and SOFTWARE_MARK in field.json_schema_extra


def whole(value: Any) -> Any:
    """Convert a float such as 1.28e6 to its whole number; leave other values for validation."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=1), BeforeValidator(whole)]
"""A number of things of which there is at least one."""


def union_of(table: Mapping[str, type[Spec]]) -> Any:
    """Return the type of any member of a table, which its key `kind` tells from the others."""
    members: Any = reduce(or_, table.values())
    return Annotated[members, Field(discriminator="kind")]


def checked_spec(base: type[Spec]) -> Callable[[str, Any], None]:
    """Return the check of a table whose members are specs: subclasses of `base` whose `kind` is their name."""

    def check(name: str, member: Any) -> None:
        if not (isinstance(member, type) and issubclass(member, base)):
            message = f"'{name}' must be a subclass of {base.__module__}.{base.__name__} (got {member!r})"
            raise InputError(message, got=repr(member), allowed=f"a subclass of {base.__name__}")
        kind: Any = member.model_fields["kind"].annotation if "kind" in member.model_fields else None
        if get_args(kind) != (name,):
            message = f'\'{name}\' must declare `kind: Literal["{name}"] = "{name}"` (got {kind})'
            raise InputError(message, got=str(kind), allowed=f'Literal["{name}"]')

    return check
