"""The values of a `config.json`, key by key; mistakes have their place in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake, in_order
from clustersim.interchange.hf_config.classes import ConfigClass, config_class
from clustersim.interchange.hf_config.unread import NOTED, REFUSED, is_harmless
from clustersim.reading import read_text
from clustersim.reading.tree import Place

DEFAULT_TOKENS = 1024
ACTIVATIONS = (
    "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_python_tanh",
    "gelu_pytorch_tanh", "hardswish", "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6", "sigmoid",
    "silu", "swish", "tanh",
)  # fmt: skip
"""Activation functions by their names in configs (transformers, activations.py)."""
_LARGEST = 2**31 - 1
_LARGEST_NUMBER = 1e12
_MOST_LAYERS = 10_000
_MOST_NAMED = 20  # keys in one note
_MAX_BYTES = 8 << 20  # the names of twenty thousand classes take one


class Config:
    """A config's values. Mistakes are collected, and reported together by `check`; a family reads all values before it
    builds.

    Configs omit values equal to the default of their class, so a key that is missing has that (`classes`). `check` also
    looks at the keys that were not read: those that change the work are refused, and the others noted by name
    (`unread`).
    """

    def __init__(self, path: Path, tokens: int | None = None):
        self.path, self.requested_tokens = path, tokens
        self.requested_image_size: int | None = None
        self.reads_image_size: list[str] = []
        self.notes: list[str] = []
        self.mistakes: list[Mistake] = []
        self.text_of_file = read_text(path, _MAX_BYTES)
        self.values: dict[str, Any] = self._parsed()
        self.kind, self.prefix, self.start = ConfigClass("config", {}, {}), "", 0
        self.parts: list[Config] = []
        self._understood: set[str] = set()
        self._spelt: dict[str, str] = {}

    def of_class(self, model_type: str) -> None:
        """Take the defaults of a class, and its names of keys that have several."""
        self.kind = config_class(model_type)
        for alias, key in self.kind.aliases.items():
            if alias not in self.values:
                continue
            value = self.values.pop(alias)
            if key in self.values and self.values[key] != value:
                self.wrong(alias, f"{key} is another name of it, with another value; keep one", _as_json(value))
            self.values.setdefault(key, value)
            self._spelt[key] = alias

    def part(self, key: str, model_type: str) -> Config:
        """Return the config of a part, such as `text_config`, with the defaults of its class where it is missing.

        It shares notes and mistakes with this one, and `check` of this one looks at its keys too.
        """
        value = self._take(key)
        if value is None:
            value = {}
        elif not isinstance(value, dict):
            self.wrong(key, f"expected a map of keys (got {_as_json(value)})", _as_json(value), "a map")
            value = {}
        made = copy(self)
        made.values, made.prefix = dict(value), f"{self.prefix}{key}."
        found = self._occurrence(key)
        made.start = self.start if found is None else found.end()
        made.parts, made._understood, made._spelt = [], set(), {}
        made.of_class(model_type)
        self.parts.append(made)
        return made

    def _parsed(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text_of_file)
        except json.JSONDecodeError as error:
            place = Place(str(self.path), error.lineno, error.colno, self._line(error.lineno))
            raise InputError(place.mistake(f"this is not JSON: {error.msg}")) from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, a list in a list in ...
            reason = str(error).partition(";")[0]
            raise InputError(Place(str(self.path)).mistake(f"this JSON cannot be read: {reason}")) from None
        if not self._is_text(found):
            raise InputError(
                Place(str(self.path)).mistake(
                    "this JSON cannot be written again: half a character (a lone surrogate), or maps too deep"
                )
            )
        if not isinstance(found, dict):
            raise InputError(Place(str(self.path)).mistake("a Hugging Face config is a JSON map of keys"))
        return found

    @staticmethod
    def _is_text(value: Any) -> bool:
        """Say whether what was read can be written: an escaped half of a surrogate pair cannot."""
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except (UnicodeEncodeError, RecursionError):
            return False
        return True

    def _line(self, number: int) -> str | None:
        lines = self.text_of_file.splitlines()
        return lines[number - 1] if number <= len(lines) else None

    def _occurrence(self, key: str) -> re.Match[str] | None:
        spelt = self._spelt.get(key, key)
        return re.compile(rf'"{re.escape(spelt)}"\s*:').search(self.text_of_file, self.start)

    def mistake(self, key: str, message: str, got: str | None = None, allowed: str | None = None) -> Mistake:
        """Return a mistake at the line of a key's first occurrence."""
        found, dotted = self._occurrence(key), self.prefix + self._spelt.get(key, key)
        if found is None:
            return Place(str(self.path)).mistake(message, dotted, got, allowed)
        line = self.text_of_file.count("\n", 0, found.start()) + 1
        column = found.start() - self.text_of_file.rfind("\n", 0, found.start())
        return Place(str(self.path), line, column, self._line(line)).mistake(message, dotted, got, allowed)

    def wrong(self, key: str, message: str, got: object = None, allowed: str | None = None) -> None:
        """Store a mistake for `check`."""
        self.mistakes.append(self.mistake(key, message, None if got is None else str(got)[:60], allowed))

    def check(self) -> None:
        """Report all mistakes, with what is set and not understood; the rest of that is noted."""
        self._explain_unread()
        if self.mistakes:
            raise InputError(in_order(self.mistakes))

    def without_effect(self, *keys: str) -> None:
        """Say that these keys change neither parameters nor kernels of this family."""
        self._understood |= set(keys)

    def unread(self) -> dict[str, Any]:
        """Return the keys that are set, were not read, and may change something."""
        return {
            key: value
            for key, value in self.values.items()
            if key not in self._understood and not is_harmless(key, value, self.kind.defaults)
        }

    def _explain_unread(self) -> None:
        unknown = []
        for key, value in self.unread().items():
            shown = _as_json(value)
            if key in REFUSED:
                self.wrong(key, f"{REFUSED[key]} (got {shown})", shown)
            elif key in NOTED:
                self.notes.append(f"{self.prefix}{key}: {NOTED[key]}")
            else:
                unknown.append(f"{self.prefix}{key}: {shown}")
        if unknown:
            left_out = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
            named = ", ".join(unknown[:_MOST_NAMED]) + left_out
            self.notes.append(f"not understood, and left out: {named}")
        for part in self.parts:
            part._explain_unread()

    def _take(self, key: str) -> Any:
        """Return a value, or the class's default of a key that is missing, and remember that it was read."""
        self._understood.add(key)
        return self.values[key] if key in self.values else self.kind.defaults.get(key)

    def _value(self, key: str, default: Any) -> Any:
        """Return a value, or a default where it is missing or null: `default`, else that of the class."""
        value = self._take(key)
        if value is None:
            value = self.kind.defaults.get(key) if default is None else default
        return value

    def layers(self, key: str, default: int | None = None) -> int:
        """Return the number of blocks; the limit is far above any model, and prevents filling the memory."""
        return self.size(key, default, most=_MOST_LAYERS)

    def size(self, key: str, default: int | None = None, most: int = _LARGEST, least: int = 1) -> int:
        """Return a whole number of at least 1 (or `least`)."""
        value = self._value(key, default)
        if value is None:
            self.wrong(key, "is missing")
        elif isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            allowed = f"a whole number from {least} to {most:,}"
            self.wrong(key, f"expected {allowed} (got {_as_json(value)})", _as_json(value), allowed)
        else:
            return value
        return max(1, least)

    def optional_size(self, key: str, least: int = 1) -> int | None:
        """Return a whole number, or None for null: a window that there is not."""
        return None if self._take(key) is None else self.size(key, least=least)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number of at least 0, such as a probability or a factor."""
        value = self._value(key, default)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST_NUMBER:
            allowed = f"a number from 0 to {_LARGEST_NUMBER:g}"
            self.wrong(key, f"expected {allowed} (got {_as_json(value)})", _as_json(value), allowed)
            return 0.0
        return float(value)

    def drops(self, key: str) -> bool:
        """Return whether a dropout of this probability has a kernel."""
        return self.number(key) > 0

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean value."""
        value = self._value(key, default)
        if value is not None and not isinstance(value, bool):
            self.wrong(key, f"expected true or false (got {_as_json(value)})", _as_json(value), "true, false")
        return bool(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a word; a missing required one is reported immediately."""
        value = self._value(key, default)
        if not isinstance(value, str):
            got = None if value is None else _as_json(value)
            raise InputError(self.mistake(key, "is missing" if got is None else f"expected a name (got {got})", got))
        return value

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """Return one of some words."""
        value = self.text(key, default)
        if value not in known:
            allowed = ", ".join(known)
            self.wrong(key, f"expected one of {allowed} (got {_as_json(value)})", _as_json(value), allowed)
            return known[0]
        return value

    def function(self, key: str, default: str | None = None) -> str:
        """Return the name of an activation function."""
        return self.choice(key, ACTIVATIONS, default)

    def numbers(self, key: str) -> list[int] | None:
        """Return a list of whole numbers, of layers for example; None if there is none."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            self.wrong(key, f"expected a list of whole numbers (got {_as_json(value)})", _as_json(value))
            return None
        return [int(each) for each in value]

    def anything(self, key: str) -> Any:
        """Return a value as it is; the caller checks it."""
        return self._take(key)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a map of keys, empty if there is none."""
        value = self._take(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, f"expected a map of keys (got {_as_json(value)})", _as_json(value), "a map")
        return value if isinstance(value, dict) else {}

    def kinds(self, key: str, num: int, known: Sequence[str]) -> list[str] | None:
        """Return the kind of each of `num` layers, all of which are `known`; None if they are not listed."""
        value = self._take(key)
        if value is None:
            return None
        allowed = f"a list of {num} of {', '.join(known)}"
        if not isinstance(value, list) or len(value) != num:
            size = f"a list of {len(value)}" if isinstance(value, list) else _as_json(value)
            self.wrong(key, f"expected {allowed} (got {size})", size, allowed)
            return None
        strange = next((each for each in value if each not in known), None)
        if strange is not None:
            self.wrong(key, f"expected {allowed} (got {_as_json(strange)})", _as_json(strange), allowed)
            return None
        return [str(each) for each in value]

    def architecture(self, known: Sequence[str]) -> str:
        """Return the model class of the family: the first of `architectures`, or by default of the known ones."""
        value = self._take("architectures")
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
        names = self._take("id2label")
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

    def asked_image_size(self) -> int | None:
        """Return the side of a sample's image, if one was asked for; reading it says that a sample has an image."""
        self.reads_image_size.append(self.prefix)
        return self.requested_image_size

    def split(self, whole: str, num: int, parts: str, into: int) -> int:
        """Return num / into, two sizes of which one must be a multiple of the other; reported only if neither is
        already wrong.
        """
        if num % into and not {self.prefix + whole, self.prefix + parts} & {wrong.key for wrong in self.mistakes}:
            self.wrong(whole, f"expected a multiple of {parts}, {into} (got {num})", num, f"a multiple of {into}")
        return max(1, num // into)


def _as_json(value: Any) -> str:
    """Return a value as in the file, to distinguish the text "512" from the number."""
    return json.dumps(value, ensure_ascii=False)[:60]
