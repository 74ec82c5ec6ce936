"""What each key alone does: the first scenario with one value of the second at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clustersim.difference.difference import KeyEffect, PointDifference
from clustersim.difference.settings import ABSENT, SWEEP, SettingChange, at_point, value_at
from clustersim.errors import InputError
from clustersim.results import Sweep
from clustersim.scenario.overrides import CASE, CASES

MOST_KEYS = 12
"""Keys that are changed one at a time."""

Simulate = Callable[[Sequence[str], str], Sweep]
"""Takes settings of the first scenario and a key to leave out, empty for none; gives its only run with these."""


def key_effects(
    point: PointDifference, simulate: Simulate, progress: Callable[[float, str], None]
) -> tuple[KeyEffect, ...]:
    """Return what each key that differs does alone, the largest effect first; none where one key differs.

    Raise InputError for more than MOST_KEYS keys.
    """
    keys = point.settings
    if len(keys) < 2:
        return ()
    if len(keys) > MOST_KEYS:
        message = f"{len(keys)} keys differ, and at most {MOST_KEYS} are changed one by one; compare nearer scenarios"
        raise InputError(message, key="--one-by-one", got=f"{len(keys)} keys", allowed=f"at most {MOST_KEYS}")
    (sweep, _), (run, _) = point.sweeps, point.runs
    scenario = at_point(sweep.scenario, run.axes)
    here = _texts_of_point(sweep.scenario, scenario, run.axes)
    effects = []
    for number, change in enumerate(keys):
        progress(number / len(keys), f"{change.key} alone")
        try:
            text, left_out = _change(scenario, change)
            (alone,) = simulate([*here, *text], left_out).runs
            seconds = alone.iteration_s / point.basis.per_iteration(alone)
            effects.append(KeyEffect(change.key, seconds - point.seconds[0]))
        except InputError as error:
            effects.append(KeyEffect(change.key, None, error.mistakes[0].message))
    return tuple(sorted(effects, key=lambda effect: -abs(effect.change_s or 0.0)))


def _texts_of_point(whole: Mapping[str, Any], scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> list[str]:
    """Return the settings that leave a scenario one of its points, given as a scenario too."""
    texts = [_text(SWEEP, None)] if whole.get(SWEEP) else []
    for key, label in axes.items():
        texts.append(_text(key, label if key == CASE and whole.get(CASES) else value_at(scenario, key)))
    return texts


def _change(scenario: Mapping[str, Any], change: SettingChange) -> tuple[list[str], str]:
    """Return the setting that changes a key to its second value, and the key to leave out instead."""
    if change.b is not ABSENT:
        return [_text(change.key, change.b)], ""
    above, _, last = change.key.rpartition(".")
    if not above:
        return [], last
    inside = value_at(scenario, above)
    if isinstance(inside, list):
        return [_text(above, [each for number, each in enumerate(inside) if str(number) != last])], ""
    return [_text(above, {key: value for key, value in inside.items() if key != last})], ""


def _text(key: str, value: object) -> str:
    """Return a setting as a text.

    >>> _text("strategy", {"kind": "server"}), _text("num_gpus", 8)
    ('strategy={"kind": "server"}', 'num_gpus=8')
    """
    return f"{key}={json.dumps(value, ensure_ascii=False)}"
