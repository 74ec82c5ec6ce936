"""Shipped transports as they would be without one case's figures, so that no case is scored on what it calibrated.

`fitted/before/` has a transport as it was before any figure was fitted, `fitted/without-CASE/` as fitted to all others'
figures. `clustersim calibrate --store` writes them; `clustersim validate` only looks them up.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware import TRANSPORTS, load_transport
from clustersim.hardware.sheet import Transport

SHEETS = Path(__file__).resolve().parent / "fitted"


def sheet_without(case: str, transport: str, folder: Path = SHEETS) -> Path | None:
    """Return the sheet of a transport fitted without a case's figures; None where they had no part in its constants."""
    if transport not in TRANSPORTS:
        return None
    path = folder / f"without-{case}" / f"{transport}.yaml"
    return path if path.is_file() else None


def before_any_fit(transport: str, folder: Path = SHEETS) -> Transport:
    """Return a shipped transport as it was before figures were fitted: with its assumed constants."""
    path = folder / "before" / f"{transport}.yaml"
    return load_transport(path if path.is_file() else transport)
