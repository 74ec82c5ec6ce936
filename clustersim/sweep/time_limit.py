"""A limit on the time of a point: a thread raises an exception in the one that simulates it.

Signals reach only the main thread, and workers of a cluster simulate in others. Python raises the exception between two
of its instructions, so a call of compiled code ends first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Event, Lock, Thread, get_ident
from typing import TypeVar

from clustersim.errors import TooLongError
from clustersim.units import format_duration

_AGAIN_S = 1.0
"""Seconds after which the exception is raised again, if it was lost: Python drops those that a destructor raises."""

Result = TypeVar("Result")


class _Expired(BaseException):
    """The time is over; no Exception, so that code which handles those does not handle it."""


def within(limit_s: float | None, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise TooLongError if it takes longer than `limit_s` seconds.

    What `work` was about to change is then left as it is.
    """
    if limit_s is None:
        return work()
    watchdog = _Watchdog(limit_s)
    try:
        try:
            watchdog.start()
            return work()
        finally:
            watchdog.stop()
    except _Expired:
        watchdog.stop()
        raise TooLongError(f"it takes more than {format_duration(limit_s)} to simulate") from None


class _Watchdog:
    """Raises `_Expired` in the thread that makes it, `limit_s` seconds after the start unless it was stopped."""

    def __init__(self, limit_s: float):
        self._limit_s, self._worker = limit_s, ctypes.c_ulong(get_ident())
        self._stopped, self._lock = Event(), Lock()
        self._thread = Thread(target=self._watch, name="time limit of a point", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Raise nothing any more; what was to be raised and was not yet is dropped."""
        while True:
            try:
                with self._lock:
                    self._stopped.set()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(self._worker, None)
                return
            except _Expired:
                continue

    def _watch(self) -> None:
        wait_s = self._limit_s
        while not self._stopped.wait(wait_s):
            with self._lock:
                if not self._stopped.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(self._worker, ctypes.py_object(_Expired))
            wait_s = _AGAIN_S
