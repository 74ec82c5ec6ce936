"""What a `config.json` says, key by key, with its mistakes in their places."""

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
    """A config's values. Wrong ones are collected, and told all at once by `check`; a family reads before it builds.

    Configs leave out what is as their class has it, so every key has the default of its family; a null is one too.
    """

    def __init__(self, path: Path, tokens: int | None = None):
        self.path, self.asked_tokens = path, tokens
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
            said = str(error).partition(";")[0]
            raise InputError(Place(str(self.path)).mistake(f"this is not JSON as it is read here: {said}")) from None
        if not isinstance(found, dict):
            raise InputError(Place(str(self.path)).mistake("a Hugging Face config is a JSON map of keys"))
        return found

    def _line(self, number: int) -> str | None:
        lines = self.text_of_file.splitlines()
        return lines[number - 1] if number <= len(lines) else None

    def mistake(self, key: str, message: str, got: str | None = None, allowed: str | None = None) -> Mistake:
        """Return a mistake at the line where a key first stands."""
        found = re.search(rf'"{re.escape(key)}"\s*:', self.text_of_file)
        if found is None:
            return Place(str(self.path)).mistake(message, key, got, allowed)
        line = self.text_of_file.count("\n", 0, found.start()) + 1
        column = found.start() - self.text_of_file.rfind("\n", 0, found.start())
        return Place(str(self.path), line, column, self._line(line)).mistake(message, key, got, allowed)

    def wrong(self, key: str, message: str, got: object = None, allowed: str | None = None) -> None:
        """Keep a mistake for `check`."""
        self.mistakes.append(self.mistake(key, message, None if got is None else str(got)[:60], allowed))

    def check(self) -> None:
        """Tell every mistake that was found."""
        if self.mistakes:
            raise InputError(in_order(self.mistakes))

    def layers(self, key: str, default: int) -> int:
        """Return how many blocks there are; more than any model has would fill the memory with them."""
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
            self.wrong(key, f"expected {allowed} (got {_written(value)})", _written(value), allowed)
        else:
            return value
        return 1

    def flag(self, key: str, default: bool) -> bool:
        """Return whether something is so."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, f"expected true or false (got {_written(value)})", _written(value), "true, false")
        return bool(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a word; one that must be there and is not is told at once."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            got = None if value is None else _written(value)
            raise InputError(self.mistake(key, "is missing" if got is None else f"expected a name (got {got})", got))
        return value

    def architecture(self, known: Sequence[str]) -> str:
        """Return which model of its family this is: the first of `architectures`, or of those that are known."""
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
        """Return how many classes a classifier tells apart: 2 where none are named."""
        names = self.values.get("id2label")
        if isinstance(names, dict) and names:
            return len(names)
        return self.size("num_labels", 2)

    def tokens(self, positions: int, learned: bool) -> int:
        """Return the tokens of a sample; at most as many as the model has positions for, where it learns them."""
        tokens = self.asked_tokens or min(positions, DEFAULT_TOKENS)
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
            self.notes.append(f"{tokens} tokens are more than the {positions} positions that the config names")
        if self.asked_tokens is None:
            self.notes.append(f"a sample is {tokens} tokens; --tokens says otherwise")
        return tokens

    def split(self, whole: str, num: int, parts: str, into: int) -> int:
        """Return num / into, two sizes of which one is a multiple of the other; neither is wrong by itself."""
        if num % into and not {whole, parts} & {mistake.key for mistake in self.mistakes}:
            self.wrong(whole, f"expected a multiple of {parts}, {into} (got {num})", num, f"a multiple of {into}")
        return max(1, num // into)


def _written(value: Any) -> str:
    """Return a value as the file has it, so that the text "512" is not taken for the number."""
    return json.dumps(value, ensure_ascii=False)[:60]
