"""The base class of all models that a user writes in a file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Spec(BaseModel):
    """A part of a scenario: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", defer_build=True, frozen=True)


def whole(value: Any) -> Any:
    """Convert a float such as 1.28e6 to its whole number; leave other values for validation."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=1), BeforeValidator(whole)]
"""A whole number of at least 1."""
