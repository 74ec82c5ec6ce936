"""What commands say about the key `learning`: how not to train, and what training costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from clustersim.scenario import Scenario

NO_LEARN = typer.Option("--no-learn", help="Train nothing: forecast as without the task of `learning`.")

CURVES = typer.Option(
    "--curves", metavar="FILE", help="Write loss and accuracy of each seed against seconds and updates (CSV)."
)
_LONG_S = 60.0
"""CPU seconds of training from which on they are told before it begins."""


def note_untrained(what: str, sources: Iterable[str], settings: Sequence[str] = ()) -> None:
    """Say that a command trains nothing, if any of its scenarios has a task to train."""
    from clustersim.errors import InputError
    from clustersim.scenario.loader import gives

    for source in sources:
        try:
            has_task = gives("learning.task", source, settings)
        except InputError:  # which the command itself tells, or it is a saved run
            continue
        if has_task:
            typer.echo(f"note: {what} trains nothing; `clustersim run` trains what `learning` says", err=True)
            return


def tell_cost(loaded: Scenario) -> None:
    """Say how long the training of all points takes, if it takes long."""
    from clustersim.simulate import training_cpu_s
    from clustersim.units import format_duration

    seconds = training_cpu_s(loaded)
    if seconds >= _LONG_S:
        typer.echo(
            f"training takes about {format_duration(seconds)} of one CPU core; --no-learn trains nothing", err=True
        )
