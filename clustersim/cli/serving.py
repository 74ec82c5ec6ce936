"""`clustersim serve`: a page on this machine that shows a scenario with other values."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.learning import note_untrained

if TYPE_CHECKING:
    import socket


def serve(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario before the page changes others."),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", help="Port on this machine; 0: any free one.", min=0, max=65535)
    ] = 8050,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """Serve a page on this machine that answers "what if": more GPUs, a faster network, another layout.

    Each change of a slider or a choice is a new forecast, with the command that makes the same one. The page keeps its
    state in its address. Ctrl-C ends it.
    """
    from clustersim.errors import InputError

    if find_spec("dash") is None:
        message = "`clustersim serve` needs dash, which is not installed: pip install 'clustersim[serve]'"
        raise InputError(message, got="no dash", allowed="the extra serve")
    with _listener(port) as listener:
        from clustersim.what_if import WhatIf
        from clustersim.what_if.app.server import serve as serve_page

        def on_start(address: str) -> None:
            typer.echo(f"page: {address} (Ctrl-C ends it)")
            if not no_open:
                import webbrowser

                webbrowser.open(address)

        study = WhatIf(scenario, settings or [])
        note_untrained("the page", [scenario], settings or [])
        with suppress(KeyboardInterrupt):
            serve_page(study, listener, on_start)
        if study.is_busy:
            _exit_at_once()


def _exit_at_once() -> None:
    """End the process while a thread still evaluates: compiled code in it would abort an ordinary end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _listener(port: int) -> socket.socket:
    """Return a socket on a port of this machine; end the command, in one line, for a port that is in use."""
    from clustersim.what_if.app.server import listen

    try:
        return listen(port)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        typer.echo(f"port {port}: {reason}; name another by --port, or 0 for any that is free", err=True)
        raise typer.Exit(2) from None
