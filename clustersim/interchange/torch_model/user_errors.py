"""Errors in a user's own code, in one line and with their place."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

_NOT_USER_CODE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<frozen")

_SIGNS = ("meta tensor", "meta backend", "'meta'", "device meta", "register_meta", "data-dependent")


def describe_error(error: BaseException) -> str:
    """Return an exception's first line, and the last line of the user's code in its traceback."""
    said = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text} ({error.filename}:{error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_USER_CODE) and frame.name != "_call_with_frames_removed"
    ]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def needs_values(error: BaseException) -> bool:
    """Return whether an error is caused by reading a tensor's values, which do not exist on the meta device."""
    said = str(error).lower()
    return any(sign in said for sign in _SIGNS)
