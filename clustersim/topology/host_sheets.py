"""Sheets of hosts that one can rent or order: a template with its options, the rate of a card, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from clustersim.hardware import TRANSPORTS, SheetCatalogue
from clustersim.hardware.schema import SheetFile, Sourced
from clustersim.hardware.sheet import Sheet
from clustersim.hardware.sheet_catalogue import is_path
from clustersim.topology.wire import LinkName


@dataclass(frozen=True)
class HostSheet(Sheet):
    """A host: its template and the template's options, the link of a card, and the library that programs on it use."""

    template: str
    options: Mapping[str, Any]
    link: str
    transport: str


class HostSheetFile(SheetFile[HostSheet]):
    """A host that is a template with options."""

    device_type = HostSheet

    template: Sourced[str]
    options: dict[str, Sourced[Annotated[bool | int | str, Field(union_mode="left_to_right")]]]
    link: Sourced[LinkName]
    transport: Sourced[str]


HOST_SHEETS: SheetCatalogue[HostSheet] = SheetCatalogue(
    "host", HostSheetFile, Path(__file__).with_name("hosts"), refers={"transport": TRANSPORTS}
)


def host_sheet(name: object) -> HostSheet | None:
    """Return the sheet of a host by its shipped name or its file; None for anything else.

    >>> host_sheet("aws-p5en").options["gpu"], host_sheet("dgx-h100")
    ('h200', None)
    """
    if isinstance(name, str) and (name in HOST_SHEETS or is_path(name)):
        return HOST_SHEETS.load(name)
    return None
