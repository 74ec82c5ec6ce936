"""Progress on stderr: a bar in a terminal, lines in a log, nothing for short tasks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERVAL_S = 1.0
"""Minimum time before the first line of a log, and between two lines."""

_STEP = 0.1
"""Minimum progress between two lines of a log."""

OnProgress = Callable[[float, str], None]
"""Takes the share of the work that is done, 0 to 1, and what is being worked on."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[OnProgress]:
    """Yield a function that shows progress."""
    if quiet:
        yield lambda share, what: None
    elif sys.stderr.isatty():
        with _bar() as on_progress:
            yield on_progress
    else:
        yield _lines()


def with_limit(
    on_progress: OnProgress, time_limit_s: float | None, clock: Callable[[], float] = time.monotonic
) -> OnProgress:
    """Return a function that also shows how long it is until a time limit."""
    if time_limit_s is None:
        return on_progress
    from clustersim.units import format_duration

    end_s = clock() + time_limit_s

    def limited(share: float, what: str) -> None:
        left_s = max(round(end_s - clock()), 0)
        on_progress(share, ", ".join(filter(None, (what, f"{format_duration(left_s)} to the time limit"))))

    return limited


@contextmanager
def _bar() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, what: bar.update(task, completed=share, description=what)


def _lines(clock: Callable[[], float] = time.monotonic) -> OnProgress:
    last_s, last_share = clock(), 0.0

    def on_progress(share: float, what: str) -> None:
        nonlocal last_s, last_share
        now_s = clock()
        if now_s - last_s >= INTERVAL_S and share - last_share >= _STEP:
            last_s, last_share = now_s, share
            place = f" ({what})" if what else ""
            print(f"{share:.0%} done{place}", file=sys.stderr, flush=True)

    return on_progress
