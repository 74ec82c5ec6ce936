"""A campaign as a file: its measurements, date and machine."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.results.files import to_json, write_atomically
from validate.lab.case import Case
from validate.lab.sandbox import sandbox_creator

SCHEMA = "clustersim.lab/1"


def campaign_document(
    name: str, cases: Sequence[Case], took_s: float, busy: float, loaded: str | None = None
) -> dict[str, Any]:
    """Return the `clustersim.lab/1` document.

    `busy` is the mean share of busy processors, `loaded` a text about other load on the machine.
    """
    return {
        "schema": SCHEMA,
        "version": __version__,
        "campaign": name,
        "date": datetime.date.today().isoformat(),
        "took_s": round(took_s, 1),
        "machine": {**machine(), "busy": round(busy, 3), "loaded": loaded},
        "cases": [case.to_dict() for case in cases],
    }


def machine() -> dict[str, Any]:
    """Return the properties of the machine that matter to sockets and timers."""
    return {
        "processor": _processor(),
        "num_cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": _torch(),
        "user": sandbox_creator(),
    }


def _torch() -> str | None:
    """Return the version of torch; None if it is not installed, as on a machine that only reads campaigns."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_campaign(document: dict[str, Any], path: Path) -> Path:
    """Write the file of a campaign."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, to_json(document, indent=1) + "\n")


def read_campaign(path: Path) -> tuple[dict[str, Any], list[Case]]:
    """Return a campaign's document and its cases."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the campaign '{path}' cannot be read: {error.strerror}", got=str(path)) from None
    except ValueError as error:
        raise InputError(Mistake(f"this is not JSON: {error}", file=str(path))) from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        message = f"expected a campaign of the lab, '{SCHEMA}' (got '{found}')"
        raise InputError(Mistake(message, "schema", str(path), got=str(found), allowed=SCHEMA))
    cases = []
    for number, case in enumerate(document.get("cases", [])):
        try:
            cases.append(Case.from_dict(case))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            message = (
                f"this case has another format than the lab writes ({reason}); was the file written by another version?"
            )
            raise InputError(Mistake(message, f"cases.{number}", str(path))) from None
    return document, cases
