"""Progress on stderr: a bar for people, a line now and then for logs, nothing for what is done at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 1.0
"""How long nothing is said, and how often something is said to a log."""

Tell = Callable[[float], None]
"""Is told which share of the work is done, 0 to 1."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Tell | None]:
    """Yield what a sweep tells about its progress; None where nothing is to be shown."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _lines()


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("simulating"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _lines(clock: Callable[[], float] = time.monotonic) -> Tell:
    last = clock()

    def tell(share: float) -> None:
        nonlocal last
        now = clock()
        if now - last >= QUIET_S:
            last = now
            print(f"simulated {share:.0%}", file=sys.stderr, flush=True)

    return tell
