"""The values of a `config.json`, key by key; mistakes have their place in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake, in_order
from clustersim.reading import read_text
from clustersim.reading.tree import Place

DEFAULT_TOKENS = 1024
_LARGEST = 2**31 - 1
_MOST_LAYERS = 10_000
_MAX_BYTES = 8 << 20  # the names of twenty thousand classes take one


class Config:
    """A config's values. Mistakes are collected, and reported together by `check`; a family reads all sizes before it
    builds.

    Configs omit values equal to the default of their class, so every key has the default of its family; null means the
    default too.
    """

    def __init__(self, path: Path, tokens: int | None = None):
        self.path, self.requested_tokens = path, tokens
        self.notes: list[str] = []
        self.mistakes: list[Mistake] = []
        self.text_of_file = read_text(path, _MAX_BYTES)
        self.values = self._parsed()

    def _parsed(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text_of_file)
        except json.JSONDecodeError as error:
            place = Place(str(self.path), error.lineno, error.colno, self._line(error.lineno))
            raise InputError(place.mistake(f"this is not JSON: {error.msg}")) from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, a list in a list in ...
            reason = str(error).partition(";")[0]
            raise InputError(Place(str(self.path)).mistake(f"this JSON cannot be read: {reason}")) from None
        if not isinstance(found, dict):
            raise InputError(Place(str(self.path)).mistake("a Hugging Face config is a JSON map of keys"))
        return found

    def _line(self, number: int) -> str | None:
        lines = self.text_of_file.splitlines()
        return lines[number - 1] if number <= len(lines) else None

    def mistake(self, key: str, message: str, got: str | None = None, allowed: str | None = None) -> Mistake:
        """Return a mistake at the line of a key's first occurrence."""
        found = re.search(rf'"{re.escape(key)}"\s*:', self.text_of_file)
        if found is None:
            return Place(str(self.path)).mistake(message, key, got, allowed)
        line = self.text_of_file.count("\n", 0, found.start()) + 1
        column = found.start() - self.text_of_file.rfind("\n", 0, found.start())
        return Place(str(self.path), line, column, self._line(line)).mistake(message, key, got, allowed)

    def wrong(self, key: str, message: str, got: object = None, allowed: str | None = None) -> None:
        """Store a mistake for `check`."""
        self.mistakes.append(self.mistake(key, message, None if got is None else str(got)[:60], allowed))

    def check(self) -> None:
        """Report all mistakes."""
        if self.mistakes:
            raise InputError(in_order(self.mistakes))

    def layers(self, key: str, default: int) -> int:
        """Return the number of blocks; the limit is far above any model, and prevents filling the memory."""
        return self.size(key, default, most=_MOST_LAYERS)

    def size(self, key: str, default: int | None = None, most: int = _LARGEST) -> int:
        """Return a whole number of at least 1."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.wrong(key, "is missing")
        elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            allowed = f"a whole number from 1 to {most:,}"
            self.wrong(key, f"expected {allowed} (got {_as_json(value)})", _as_json(value), allowed)
        else:
            return value
        return 1

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean value."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, f"expected true or false (got {_as_json(value)})", _as_json(value), "true, false")
        return bool(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a word; a missing required one is reported immediately."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            got = None if value is None else _as_json(value)
            raise InputError(self.mistake(key, "is missing" if got is None else f"expected a name (got {got})", got))
        return value

    def architecture(self, known: Sequence[str]) -> str:
        """Return the model class of the family: the first of `architectures`, or by default of the known ones."""
        value = self.values.get("architectures")
        named = value[0] if isinstance(value, list) and value else None
        if named is None and (value is None or value == []):
            return known[0]
        if named not in known:
            allowed = ", ".join(known)
            self.wrong(
                "architectures",
                f"no architecture of this family is called {named!r} (known: {allowed})",
                named,
                allowed,
            )
            return known[0]
        return str(named)

    def labels(self) -> int:
        """Return the number of classes of a classifier: 2 if none are named."""
        names = self.values.get("id2label")
        if isinstance(names, dict) and names:
            return len(names)
        return self.size("num_labels", 2)

    def tokens(self, positions: int, learned: bool) -> int:
        """Return the tokens of a sample; at most the number of positions, where the model learns them."""
        tokens = self.requested_tokens or min(positions, DEFAULT_TOKENS)
        if tokens > positions and learned:
            self.mistakes.append(
                Mistake(
                    f"the model has {positions} positions (got {tokens} tokens)",
                    "--tokens",
                    str(self.path),
                    got=str(tokens),
                    allowed=f"1 to {positions}",
                )
            )
        elif tokens > positions:
            self.notes.append(f"{tokens} tokens are more than the config's {positions} positions")
        if self.requested_tokens is None:
            self.notes.append(f"a sample is {tokens} tokens; change this with --tokens")
        return tokens

    def split(self, whole: str, num: int, parts: str, into: int) -> int:
        """Return num / into, two sizes of which one must be a multiple of the other; reported only if neither is
        already wrong.
        """
        if num % into and not {whole, parts} & {mistake.key for mistake in self.mistakes}:
            self.wrong(whole, f"expected a multiple of {parts}, {into} (got {num})", num, f"a multiple of {into}")
        return max(1, num // into)


def _as_json(value: Any) -> str:
    """Return a value as in the file, to distinguish the text "512" from the number."""
    return json.dumps(value, ensure_ascii=False)[:60]
