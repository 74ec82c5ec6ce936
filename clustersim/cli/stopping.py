"""SIGTERM as an interruption: a command that has something to show when it is stopped shows it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from clustersim.cli.failure import INTERRUPTED, TERMINATED, report_interrupt


@dataclass
class Stopping:
    """Exit status of a command that was stopped."""

    status: int = INTERRUPTED


@contextmanager
def stoppable(as_json: bool) -> Iterator[Stopping]:
    """Raise KeyboardInterrupt on SIGTERM too, as on Ctrl-C; SystemExit with its status if it is not caught."""
    stop = Stopping()
    if threading.current_thread() is not threading.main_thread():  # only the main thread has signal handlers
        yield stop
        return

    def on_signal(number: int, frame: object) -> None:
        stop.status = TERMINATED
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield stop
    except KeyboardInterrupt:
        if stop.status == TERMINATED:
            raise SystemExit(report_interrupt(as_json, TERMINATED)) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
