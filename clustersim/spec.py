"""What a user writes is a frozen model: the base of every such model."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Spec(BaseModel):
    """A part of a scenario: frozen, and every key it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", defer_build=True, frozen=True)


def whole(value: Any) -> Any:
    """Read 1.28e6 as the whole number it is; leave anything else to be refused."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=1), BeforeValidator(whole)]
"""A number of things of which there is at least one."""
