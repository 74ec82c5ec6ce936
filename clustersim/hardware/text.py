"""Reads a YAML sheet as plain data, and says where in the file a key stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake

MAX_BYTES = 100_000
"""A sheet is a page long; anything larger is some other file."""

MAX_BRACKETS = 500
"""A sheet has a pair a value. The YAML reader's time grows with the square of how deep they are nested."""


@dataclass(frozen=True)
class Text:
    """A file as it was read. `data` is what the YAML says; an error of its syntax is an InputError with its place."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def data(self) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            return YAML(typ="safe", pure=True).load(self.text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            place = (mark.line, mark.column) if mark else (0, 0)
            raise InputError(self.mistake(f"this is not YAML: {error.problem}", place=place)) from None
        except (YAMLError, ValueError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(self.mistake(f"this is not YAML: {reason}")) from None

    def mistake(
        self,
        message: str,
        key: Sequence[str] = (),
        place: tuple[int, int] | None = None,
        got: str | None = None,
        allowed: str | None = None,
    ) -> Mistake:
        """Return a mistake of this file; `place` (line and column from 0) is looked up where only the key is known."""
        place = place or (self.place(key) if key else None)
        dotted = ".".join(key) or None
        if place is None:
            return Mistake(message, dotted, str(self.path), got=got, allowed=allowed)
        line, column = place
        shown = self.lines[line] if line < len(self.lines) else None
        return Mistake(message, dotted, str(self.path), line + 1, column + 1, got, allowed, shown)

    def place(self, key: Sequence[str]) -> tuple[int, int]:
        """Return the line and column, from 0, of the deepest part of this key that the file has."""
        from ruamel.yaml import YAML, MappingNode

        node = YAML(typ="safe", pure=True).compose(self.text)
        mark = node.start_mark
        for part in key:
            if not isinstance(node, MappingNode):
                break
            found = [(name, value) for name, value in node.value if name.value == part]
            if not found:
                break
            name, node = found[0]
            mark = name.start_mark
        return mark.line, mark.column


def read_text(path: Path) -> Text:
    """Read a sheet file, or say why it cannot be one."""
    try:
        if path.is_dir():
            raise InputError(Mistake("this is a directory, not a sheet", file=str(path)))
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Mistake(f"this file has more than {MAX_BYTES} bytes: no sheet has", file=str(path)))
        text = path.read_text(encoding="utf-8")
        if text.count("[") + text.count("{") > MAX_BRACKETS:
            raise InputError(Mistake(f"this file has more than {MAX_BRACKETS} brackets: no sheet has", file=str(path)))
        return Text(path, text)
    except UnicodeDecodeError:
        raise InputError(Mistake("this is not a text file in UTF-8", file=str(path))) from None
    except OSError as error:
        raise InputError(Mistake(f"cannot be read: {error.strerror}", file=str(path))) from None
