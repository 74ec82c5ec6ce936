"""Names of GPUs: a sheet's name or file, and a limit of power after it, as in `h100 at 500 W`."""

from __future__ import annotations

import re

_LIMITED = re.compile(r"(?P<board>.+) at (?P<watts>[0-9]+(?:\.[0-9]+)?) W")


def limited_name(board: str, power_w: float) -> str:
    """Return the name of a GPU under a limit of power.

    >>> limited_name("h100", 500.0)
    'h100 at 500 W'
    """
    return f"{board} at {power_w:.10g} W"


def split_name(name: str) -> tuple[str, float | None]:
    """Return a sheet's name or file and the limit of power in watts, None without one.

    >>> split_name("h100 at 500 W"), split_name("h100")
    (('h100', 500.0), ('h100', None))
    """
    match = _LIMITED.fullmatch(name)
    return (match["board"], float(match["watts"])) if match else (name, None)
