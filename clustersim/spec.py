"""What a user writes is a frozen model: the base of every such model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A part of a scenario: frozen, and every key it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", defer_build=True, frozen=True)
