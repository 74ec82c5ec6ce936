"""A knob: one thing of a scenario that may be changed, and the values that it may have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from clustersim.errors import InputError, unknown_name
from clustersim.reading import read_yaml


@dataclass(frozen=True)
class Stop:
    """One value of a knob. `label` is for a reader; `also` are keys that have to change with it.

    `number` is the position on a scale, in the knob's unit; None where there is no scale.
    """

    value: Any
    label: str
    number: float | None = None
    also: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def text(self) -> str:
        """The value as `--set` takes it; no other stop of the knob has the same."""
        return value_text(self.value)


@dataclass(frozen=True)
class Knob:
    """What may be changed: its key as `--set` takes it, its values in order, and which of them the scenario has.

    A `number` has stops on a scale, in `unit`. `before` are keys to set before the own one. With an `entry` the key is
    a list, to which this map is appended with the value at `field`; the value None appends nothing. `kinds` are the
    kinds of the strategy that have the key; empty for all.
    """

    name: str
    key: str
    label: str
    kind: Literal["choice", "number"]
    stops: tuple[Stop, ...]
    current: int
    unit: str = ""
    before: tuple[tuple[str, Any], ...] = ()
    entry: tuple[tuple[str, Any], ...] = ()
    field: str = ""
    kinds: tuple[str, ...] = ()

    def stop(self, value: Any) -> Stop:
        """Return the stop of a value, or of its text; raise InputError for one that the knob has not."""
        text = value if isinstance(value, str) else value_text(value)
        place = place_of(self.stops, text)
        if place is not None:
            return self.stops[place]
        known = ", ".join(stop.text for stop in self.stops)
        raise InputError(
            f"'{self.label}' has no value {text!r} (it has {known})", key=self.name, got=text, allowed=known
        )

    @property
    def now(self) -> Stop:
        """The stop that the scenario has."""
        return self.stops[self.current]


def place_of(stops: Sequence[Stop], text: str) -> int | None:
    """Return the place of the stop with a text, or with the same number in other digits; None if there is none.

    >>> place_of([Stop(16, "16"), Stop(32, "32")], "32.0"), place_of([Stop("auto", "auto")], "ring")
    (1, None)
    """
    texts = [stop.text for stop in stops]
    if text in texts:
        return texts.index(text)
    number = _number(text)
    return next((place for place, each in enumerate(texts) if number is not None and _number(each) == number), None)


def _number(text: str) -> float | None:
    try:
        return float(text.strip('"'))
    except ValueError:
        return None


def knob_named(knobs: Mapping[str, Knob], name: str) -> Knob:
    """Return the knob of a name; raise InputError for one that is not there."""
    if name not in knobs:
        raise unknown_name("knob", name, knobs)
    return knobs[name]


def value_text(value: Any) -> str:
    """Return a value as the text that `--set KEY=` takes, in YAML's flow style.

    >>> value_text({"kind": "server", "servers": {"num": 2}}), value_text([1, True, None]), value_text("400 Gbit/s")
    ('{kind: server, servers: {num: 2}}', '[1, true, null]', '400 Gbit/s')
    >>> value_text("1e3"), value_text("a: b")
    ('"1e3"', '"a: b"')
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{value_text(key)}: {value_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Return whether YAML reads a text as itself, alone and in a list."""
    return all(_reads_as(written, value) for written, value in ((text, text), (f"[{text}]", [text])))


def _reads_as(written: str, value: Any) -> bool:
    try:
        node, mistakes = read_yaml(written, "text", positions=False)
    except InputError:
        return False
    return not mistakes and bool(node.plain() == value)
