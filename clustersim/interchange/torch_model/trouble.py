"""What a user's own code did wrong, in one line and with its place."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

_NOT_THEIRS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<frozen")

_SIGNS = ("meta tensor", "meta backend", "'meta'", "device meta", "register_meta", "data-dependent")


def told(error: BaseException) -> str:
    """Return what an exception says, its first line, and the line of the user's code that it came through last."""
    said = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text} ({error.filename}:{error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THEIRS) and frame.name != "_call_with_frames_removed"
    ]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def needs_values(error: BaseException) -> bool:
    """Return whether something asked a tensor for its numbers, of which a tensor on the meta device has none."""
    said = str(error).lower()
    return any(sign in said for sign in _SIGNS)
