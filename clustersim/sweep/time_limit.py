"""A limit on the time of a point: a thread raises an exception in the one that simulates it.

Signals reach only the main thread, and workers of a cluster simulate in others. Python raises the exception between two
of its instructions, so a call of compiled code ends first. So do an import and a compilation: half of a module would
stay in the process.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread, get_ident
from typing import TypeVar

from clustersim.errors import TooLongError
from clustersim.units import format_duration

_AGAIN_S = 1.0
"""Seconds after which the exception is raised again, if it was lost: Python drops those that a destructor raises."""

_POSTPONED_S = 0.02
_NOT_CUT = ("importlib", "numba", "llvmlite")
"""Packages whose calls end first."""

Result = TypeVar("Result")


class _Expired(BaseException):
    """The time is over; no Exception, so that code which handles those does not handle it."""


def within(limit_s: float | None, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise TooLongError if it takes longer than `limit_s` seconds.

    What `work` was about to change is then left as it is.
    """
    if limit_s is None:
        return work()
    watchdog, threshold = _Watchdog(limit_s), gc.get_threshold()
    try:
        try:
            watchdog.start()
            return work()
        finally:
            watchdog.stop()
    except _Expired:
        watchdog.stop()
        gc.set_threshold(*threshold)  # which a block that is cut short may not have restored
        raise TooLongError(f"it takes more than {format_duration(limit_s)} to simulate") from None


class _Watchdog:
    """Raises `_Expired` in the thread that makes it, `limit_s` seconds after the start unless it was stopped."""

    def __init__(self, limit_s: float):
        self._limit_s, self._worker = limit_s, get_ident()
        self._stopped, self._lock, self._has_raised = Event(), Lock(), False
        self._thread = Thread(target=self._watch, name="time limit of a point", daemon=True)
        self._hook, self._hook_before = self._pass_over_lost, sys.unraisablehook

    def start(self) -> None:
        sys.unraisablehook = self._hook
        self._thread.start()

    def stop(self) -> None:
        """Raise nothing any more; what was to be raised and was not yet is dropped."""
        while True:
            try:
                with self._lock:
                    self._stopped.set()
                if self._has_raised:
                    self._drop()
                if sys.unraisablehook is self._hook:
                    sys.unraisablehook = self._hook_before
                return
            except _Expired:
                continue

    def _drop(self) -> None:
        """Raise the exception here and drop it: an exception that is only taken back leaves Python looking for it.

        Python 3.11 then never ends a call that is profiled or traced.
        """
        with suppress(_Expired):
            self._raise(_Expired)
            while True:
                pass

    def _watch(self) -> None:
        wait_s = self._limit_s
        while not self._stopped.wait(wait_s):
            with self._lock:
                if self._stopped.is_set():
                    return
                wait_s = _POSTPONED_S if self._must_end_first() else _AGAIN_S
                if wait_s == _AGAIN_S:
                    self._has_raised = True
                    self._raise(_Expired)

    def _raise(self, exception: type[BaseException]) -> None:
        """Raise an exception in the watched thread at its next instruction."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker), ctypes.py_object(exception))

    def _pass_over_lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Say nothing of an exception of this limit that a destructor lost."""
        if unraisable.exc_type is not _Expired:
            self._hook_before(unraisable)

    def _must_end_first(self) -> bool:
        """Return whether the watched thread is in a call that is not cut."""
        frame = sys._current_frames().get(self._worker)
        while frame is not None and frame.f_code is not within.__code__:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_CUT:
                return True
            frame = frame.f_back
        return False
