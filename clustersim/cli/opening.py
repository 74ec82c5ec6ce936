"""Opens a written page in the browser, or says where it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer


def open_page(path: Path) -> None:
    """Open a page in the browser; where there is none, say how to see it. It never fails."""
    import webbrowser

    address = path.resolve().as_uri()
    try:
        opened = _has_window() and webbrowser.open(address)
    except (webbrowser.Error, OSError, ValueError):
        opened = False
    if not opened:
        typer.echo(f"no browser could be opened here; open {address} in one", err=True)


def _has_window() -> bool:
    """Return whether a browser can have a window: not over SSH or in a container, where only those of text are."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in os.environ or "BROWSER" in os.environ
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
