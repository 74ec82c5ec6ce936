"""The keys of `software` in a scenario: every field of a training that says how its program is written.

Such a field is declared where it is used, and marked with `of_software`. In a scenario it is a key of `software`, and
nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from clustersim.errors import InputError, Mistake
from clustersim.kernels.compute_time import ComputeSpec
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.parallelism.spec import Parallelism
from clustersim.reading import Path
from clustersim.reading.tree import dotted
from clustersim.software import load_software
from clustersim.spec import SOFTWARE_MARK, Spec
from clustersim.strategies import STRATEGIES

STAYS: dict[str, Path] = {
    "transport": ("transport",),
    "precision": ("precision",),
    "gradient_precision": ("gradient_precision",),
    "algorithm": ("strategy", "algorithm"),
    "buckets": ("strategy", "buckets"),
    "overlap": ("strategy", "overlap"),
}
"""Settings of a software sheet that a scenario overrides with a key of its own, by that key's path."""


@dataclass(frozen=True)
class SoftwareField:
    """A field that describes the program: its path in a training, and its declaration."""

    name: str
    path: Path
    info: FieldInfo


def _fields() -> dict[str, SoftwareField]:
    """Return every marked field by its name in `software`."""
    parts: list[tuple[Path, type[Spec]]] = [
        (("compute",), ComputeSpec),
        (("optimizer",), OptimizerSpec),
        (("parallelism",), Parallelism),
        *((("strategy",), strategy) for strategy in STRATEGIES.values()),
    ]
    found: dict[str, SoftwareField] = {}
    for path, model in parts:
        for field in _marked(path, model):
            found.setdefault(field.name, field)
    return found


def _marked(path: Path, model: type[Spec]) -> Iterator[SoftwareField]:
    """Yield the marked fields of a model at a path, and of the models that are one of its keys."""
    for key, info in model.model_fields.items():
        name = software_name(info)
        if name:
            yield SoftwareField(name, (*path, key), info)
        elif isinstance(info.annotation, type) and issubclass(info.annotation, Spec):
            yield from _marked((*path, key), info.annotation)


def software_name(info: FieldInfo) -> str:
    """Return the name of a field in `software`; empty if it is not one."""
    extra = info.json_schema_extra
    return str(extra.get(SOFTWARE_MARK, "")) if isinstance(extra, Mapping) else ""


FIELDS: dict[str, SoftwareField] = _fields()
"""The fields of `software` by name."""

NAME_OF: dict[Path, str] = {field.path: name for name, field in FIELDS.items()}
"""The name in `software` of the field at a path."""


def _optional(info: FieldInfo) -> tuple[Any, FieldInfo]:
    """Return the type and the declaration of a field that may be left out."""
    wanted: Any = info.annotation
    for part in info.metadata:
        wanted = Annotated[wanted, part]
    declared: Any = Field(default=None, description=info.description)
    return wanted | None, declared


class _Named(Spec):
    name: str = Field(default="", description="a program by name (`clustersim list software`), or the file of a sheet")

    @model_validator(mode="before")
    @classmethod
    def _keys_of_the_scenario_stay_there(cls, value: Any) -> Any:
        """Refuse settings that a scenario gives outside of `software`."""
        outside = [name for name in STAYS if isinstance(value, dict) and name in value]
        if outside:
            raise InputError(
                Mistake(
                    f"this is a key of the scenario: write {dotted(STAYS[name])} outside of `software`",
                    name,
                    got=str(value[name]),
                    allowed=dotted(STAYS[name]),
                )
                for name in outside
            )
        return value

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        """Refuse software without a sheet."""
        if name:
            load_software(name)
        return name


if TYPE_CHECKING:
    SoftwareKeys = _Named
else:
    SoftwareKeys = create_model(
        "SoftwareKeys",
        __base__=_Named,
        __doc__="Which program trains, and what differs from its sheet.",
        **{name: _optional(field.info) for name, field in FIELDS.items()},
    )


def by_name(value: Any) -> Any:
    """Read the name of a program as a map with this name."""
    if isinstance(value, bool | int | float | list):
        got = str(value).lower() if isinstance(value, bool) else str(value)
        allowed = "the name of a software, a file, or a map such as {name: torchtitan}"
        raise InputError(f"expected {allowed} (got {got})", got=got, allowed=allowed)
    return {"name": value} if isinstance(value, str) else value


Software = Annotated[SoftwareKeys, BeforeValidator(by_name, json_schema_input_type=SoftwareKeys | str)]
"""A program as a scenario writes it: `torchtitan` means `{name: torchtitan}`."""

_DOTTED = {".".join(map(str, path)): f"software.{name}" for path, name in NAME_OF.items()}
_ANY = re.compile(rf"\b({'|'.join(map(re.escape, sorted(_DOTTED, key=len, reverse=True)))})\b")


def as_written(text: str) -> str:
    """Return a text in which each field of the program has the name that a scenario gives it.

    >>> as_written("parallelism.gather_overlap changes nothing")
    'software.gather_overlap changes nothing'
    """
    return _ANY.sub(lambda match: _DOTTED[match[1]], text)
