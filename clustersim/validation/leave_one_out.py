"""Shipped transports fitted without the figures of one case, so that no case is scored on its own calibration.

`fitted/before/` has a transport before any fit, `fitted/without-CASE/` the transport fitted to the figures of all other
cases. `clustersim calibrate --store` writes them; `clustersim validate` only reads them.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware import TRANSPORTS, load_transport
from clustersim.hardware.sheet import Transport

SHEETS = Path(__file__).resolve().parent / "fitted"


def sheet_without(case: str, transport: str, folder: Path = SHEETS) -> Path | None:
    """Return the sheet of a transport fitted without a case's figures; None if its constants do not depend on them."""
    if transport not in TRANSPORTS:
        return None
    path = folder / f"without-{case}" / f"{transport}.yaml"
    return path if path.is_file() else None


def before_any_fit(transport: str, folder: Path = SHEETS) -> Transport:
    """Return a shipped transport before any fit: with its assumed constants."""
    path = folder / "before" / f"{transport}.yaml"
    return load_transport(path if path.is_file() else transport)
