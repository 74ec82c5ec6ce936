"""The sheet of a program that trains: the value of every setting that describes how the program is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from clustersim.hardware.schema import SheetFile, Sourced
from clustersim.hardware.sheet import Sheet

Layout = Literal["copies", "zero-1", "zero-2", "zero-3", "tensor", "pipeline", "expert", "context", "historical"]
"""Ways to place a model: whole copies, a stage of sharding, a degree above 1, or an older `parallelism.kind`."""


@dataclass(frozen=True)
class Software(Sheet):
    """A program that trains, as of a year.

    `values` has the program's settings by the name of a field of `software:`, or of a key of the scenario that stays
    outside of it and overrides the sheet, such as `transport`. `layouts` and `strategies` are what the program can do.
    """

    year: int
    layouts: tuple[Layout, ...]
    strategies: tuple[str, ...]
    values: Mapping[str, Any]


class SoftwareFile(SheetFile[Software]):
    """A program that trains."""

    device_type = Software

    year: Annotated[int, Field(ge=1990, le=2100)]
    layouts: tuple[Layout, ...]
    strategies: tuple[str, ...]
    values: dict[str, Sourced[Any]]
