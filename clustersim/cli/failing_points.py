"""Options on points that fail, of each command that simulates the points of a scenario."""

from __future__ import annotations

import re

import typer


def seconds_of(text: str) -> float:
    """Return a time limit in seconds.

    >>> seconds_of("60"), seconds_of("1e2"), seconds_of("2m"), seconds_of("1.5 h")
    (60.0, 100.0, 120.0, 5400.0)
    """
    from clustersim.errors import InputError
    from clustersim.units import parse

    plain = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*(m?)\s*", text)
    try:
        found = parse(f"{plain[1]} {'min' if plain[2] else 's'}" if plain else text, "duration")
    except InputError:
        found = 0.0
    if found <= 0:
        raise typer.BadParameter(f"expected seconds above 0, or a duration such as 2m (got '{text}')")
    return found


STRICT = typer.Option("--strict", help="Check all points before any is run, and end at the first that fails.")
POINT_TIMEOUT = typer.Option(
    metavar="TIME", help="The time that a point may take: seconds, or 2m.", parser=seconds_of, show_default=False
)
WHERE = typer.Option(
    metavar="CONDITION", help="Only points for which this holds: 'num_gpus * batch <= 4096'; of several, all."
)
