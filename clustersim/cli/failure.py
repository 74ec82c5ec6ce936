"""Error output of the command line: text on stderr, and a JSON document on stdout for scripts."""

from __future__ import annotations

import contextlib
import json
import traceback
from errno import EPIPE
from typing import Any

import typer

from clustersim.errors import ClustersimError, InputError, Mistake

ERROR_SCHEMA = "clustersim.error/1"
INTERRUPTED = 130
TERMINATED = 143
"""Exit statuses after Ctrl-C and after SIGTERM."""
_KEYS = ("file", "line", "column", "key", "got", "allowed", "message")


def report_failure(error: Exception, as_json: bool) -> int:
    """Print an error and return its exit status.

    A `ClustersimError` is printed by its message and has its own status; a usage error (2) comes with the usage line.
    Anything else is a bug and is printed with its traceback (1).
    """
    if isinstance(error, ClustersimError):
        status, mistakes = error.exit_status, _mistakes(error)
        typer.echo(str(error), err=True)
    elif isinstance(error, typer.TyperException):
        status, mistakes = error.exit_code, (Mistake(error.format_message()),)
        _show_usage_error(error)
    else:
        status, mistakes = 1, (Mistake(f"a bug in clustersim: {type(error).__name__}: {error}"),)
        traceback.print_exception(error)
    _print_error_document(mistakes, as_json)
    return status


def report_unwritten(error: OSError, status: int) -> int:
    """Print why the standard output cannot be written, and return the exit status: 1 unless it is worse already.

    A reader that closed the pipe, such as `head`, is told nothing.
    """
    if error.errno != EPIPE:
        typer.echo(f"cannot write to the standard output: {error.strerror}", err=True)
    return status or 1


def report_interrupt(
    as_json: bool, status: int = INTERRUPTED, message: str = "interrupted: unfinished files were not written"
) -> int:
    """Print that the command was interrupted, and return the exit status for it."""
    typer.echo(message, err=True)
    _print_error_document((Mistake(message),), as_json)
    return status


def _print_error_document(mistakes: tuple[Mistake, ...], as_json: bool) -> None:
    with contextlib.suppress(OSError):  # a standard output that cannot be written; stderr has the message
        if as_json:
            typer.echo(json.dumps(error_document(mistakes), ensure_ascii=False, indent=2))


def error_document(mistakes: tuple[Mistake, ...]) -> dict[str, Any]:
    """Return the `clustersim.error/1` document of these mistakes.

    >>> error_document((Mistake("no such file", file="a.yaml"),))["errors"][0]["line"] is None
    True
    """
    return {"schema": ERROR_SCHEMA, "errors": [{key: getattr(mistake, key) for key in _KEYS} for mistake in mistakes]}


def _mistakes(error: ClustersimError) -> tuple[Mistake, ...]:
    return error.mistakes if isinstance(error, InputError) else (Mistake(str(error)),)


def _show_usage_error(error: typer.TyperException) -> None:
    show = getattr(error, "show", None)
    if show is not None:
        show()
    else:
        typer.echo(f"Error: {error.format_message()}", err=True)
