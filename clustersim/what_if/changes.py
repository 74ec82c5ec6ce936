"""From settings of knobs to the keys that a command sets, in its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from clustersim.what_if.base import SIZES, Base
from clustersim.what_if.knob import Knob, Stop, value_text
from clustersim.what_if.straggler_knobs import stragglers_of

Turned = Mapping[str, Stop]
"""The stops of the knobs that do not have the scenario's own value, by the name of the knob."""


def turned(knobs: Sequence[Knob], settings: Mapping[str, Any], base: Base) -> dict[str, Stop]:
    """Return the knobs that settings change, in the order of the knobs, without those that the strategy has no use for.

    Raise InputError for a value that a knob has not.
    """
    chosen = {knob.name: knob.stop(settings[knob.name]) for knob in knobs if knob.name in settings}
    kind = strategy_kind(chosen, base)
    return {
        knob.name: chosen[knob.name]
        for knob in knobs
        if knob.name in chosen and chosen[knob.name] != knob.now and (not knob.kinds or kind in knob.kinds)
    }


def strategy_kind(chosen: Turned, base: Base) -> str:
    """Return the kind of the strategy with these stops."""
    whole, kind = chosen.get("strategy"), chosen.get("strategy.kind")
    if whole is not None:
        return str(whole.value["kind"] if isinstance(whole.value, Mapping) else whole.value)
    return str(kind.value) if kind is not None else base.point.strategy.kind


def changes(base: Base, knobs: Sequence[Knob], chosen: Turned) -> dict[str, Any]:
    """Return the keys to set and their values, in order: the axes of the scenario first, then the knobs."""
    by_name = {knob.name: knob for knob in knobs}
    keys = {by_name[name].key for name in chosen}
    replaced = {key.removesuffix("kind") for key in keys if key.endswith(".kind")}
    found = {
        key: value
        for key, value in base.pins.items()
        if key not in keys and not any(key.startswith(above) for above in (*replaced, *(f"{each}." for each in keys)))
    }
    if base.gives_data:
        found["parallelism.data"] = None
    for name, stop in chosen.items():
        knob = by_name[name]
        if knob.entry:
            entries = found.setdefault(knob.key, stragglers_of(base.written(knob.key)))
            found[knob.key] = [*entries, {**dict(knob.entry), knob.field: stop.value}]
    for name, stop in chosen.items():
        knob = by_name[name]
        if not knob.entry and knob.key != SIZES:
            found |= {**dict(knob.before), knob.key: stop.value, **dict(stop.also)}
    return found


def set_texts(changed: Mapping[str, Any]) -> list[str]:
    """Return changes as texts for `--set`."""
    return [f"{key}={value_text(value)}" for key, value in changed.items()]


def command(source: str, texts: Sequence[str]) -> str:
    """Return the command line that forecasts a scenario with these texts of `--set`.

    >>> command("my cluster.yaml", ["topology.link=400 Gbit/s"])
    "clustersim run 'my cluster.yaml' --set 'topology.link=400 Gbit/s'"
    """
    named = [quote(source)] if source else []
    return " ".join(["clustersim run", *named, *(f"--set {quote(text)}" for text in texts)])
