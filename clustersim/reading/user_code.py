"""Runs Python files of users, and tells errors in them in one line."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_OURS = str(Path(__file__).parents[1])


def module_of_file(path: Path) -> ModuleType:
    """Run a Python file, and return its module. It may import files beside it; no bytecode is written there."""
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_imported"  # a file may be called json.py
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with on_path(path.resolve().parent):
            sys.modules[name] = module  # dataclasses and pickles look their module up
            spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes_none
    return module


@contextlib.contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Let Python find the modules of a folder before all others."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


@contextlib.contextmanager
def quiet_code() -> Iterator[None]:
    """Redirect a user's output from stdout, which has the result, to stderr, and suppress warnings."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def describe_error(error: BaseException) -> str:
    """Return an exception's first line, and the last line of the user's code in its traceback."""
    place = place_of_error(error)
    return error_text(error) if place is None else f"{error_text(error)} ({place[0]}:{place[1]})"


def error_text(error: BaseException) -> str:
    """Return the type of an exception, and the first line of its message."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def place_of_error(error: BaseException) -> tuple[str, int | None] | None:
    """Return the file and the line of the last line of the user's code in the traceback of an exception."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    not_users = (*_torch(), _OURS, "<frozen")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(not_users) and frame.name != "_call_with_frames_removed"
    ]
    return (frames[-1].filename, frames[-1].lineno) if frames else None


def _torch() -> tuple[str, ...]:
    """Return the folder of torch, if it is imported."""
    torch = sys.modules.get("torch")
    return () if torch is None or torch.__file__ is None else (str(Path(torch.__file__).parent),)
