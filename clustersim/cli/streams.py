"""Standard streams that may be closed or full, without which a command still writes its files."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class _Lossy:
    """A stream whose messages are lost where they cannot be written; everything else is that of the stream."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text if the stream takes it, and return its length."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered if the stream takes it."""
        with contextlib.suppress(OSError):
            self._stream.flush()


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Let a command print where its standard output or error is closed (to nothing) or where stderr is full.

    Characters that a stream cannot encode become question marks.
    """
    output, errors = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        if sys.stdout is None:
            sys.stdout = opened.enter_context(open(os.devnull, "w", encoding="utf-8"))
        if sys.stderr is None:
            sys.stderr = opened.enter_context(open(os.devnull, "w", encoding="utf-8"))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        lossy: Any = _Lossy(sys.stderr)
        sys.stderr = lossy
        try:
            yield
        finally:
            sys.stdout, sys.stderr = output, errors


def flush_output() -> OSError | None:
    """Write what is left of the standard output; return why it cannot be written, None if it is.

    What cannot be written is dropped, so that the interpreter does not try again when it ends.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop_output()
        return error
    return None


def _drop_output() -> None:
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
