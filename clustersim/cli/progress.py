"""Progress on stderr: a bar for people, a line now and then for logs, nothing for what is done at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 1.0
"""How long nothing is said, and how often something is said to a log."""

Advance = Callable[[int, int], None]
"""Is told how many runs are done, and of how many."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Advance | None]:
    """Yield what a sweep calls after each run; None where nothing is to be shown."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as advance:
            yield advance
    else:
        yield _lines()


@contextmanager
def _bar() -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(clock: Callable[[], float] = time.monotonic) -> Advance:
    last = clock()

    def advance(done: int, total: int) -> None:
        nonlocal last
        now = clock()
        if now - last >= QUIET_S:
            last = now
            print(f"simulated {done} of {total} runs", file=sys.stderr)

    return advance
