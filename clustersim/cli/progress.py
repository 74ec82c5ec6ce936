"""Progress on stderr: a bar for people, a line now and then for logs, nothing for what is done at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 1.0
"""How long a log is told nothing, and how often something at most."""

_STEP = 0.1
"""How much more must be done before a log is told again."""

OnProgress = Callable[[float, str], None]
"""Is told which share of the work is done, 0 to 1, and what is being worked on."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[OnProgress]:
    """Yield what a sweep tells about its progress."""
    if quiet:
        yield lambda share, what: None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _lines()


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

    def tell(share: float, what: str) -> None:
        nonlocal last_s, last_share
        now_s = clock()
        if now_s - last_s >= QUIET_S and share - last_share >= _STEP:
            last_s, last_share = now_s, share
            place = f" ({what})" if what else ""
            print(f"simulated {share:.0%}{place}", file=sys.stderr, flush=True)

    return tell
