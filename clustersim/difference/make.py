"""Two forecasts from scenarios, saved runs or points of sweeps, and which point is compared with which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.difference.basis import basis_of
from clustersim.difference.difference import Difference, PointDifference
from clustersim.difference.settings import at_point, setting_text
from clustersim.errors import InputError
from clustersim.results import Run, Sweep, read_sweep
from clustersim.results.run import RESULT_SCHEMA
from clustersim.scenario import Scenario, load_scenario
from clustersim.sweep import sweep

Source = Sweep | Scenario | str | Path | Mapping[str, Any]
"""A result, a scenario, or the file or name of either."""

Progress = Callable[[float, str], None]

_HEAD_BYTES = 4096
_MOST_SHOWN = 12


class Side(NamedTuple):
    """One of the two: its letter, what it is called, its results, and the runs that are compared.

    `chosen` are the keys that are set for it alone.
    """

    letter: str
    name: str
    sweep: Sweep
    runs: tuple[Run, ...]
    chosen: frozenset[str] = frozenset()


def diff(
    a: Source,
    b: Source | None = None,
    *,
    overrides: Sequence[str] = (),
    a_settings: Sequence[str] = (),
    b_settings: Sequence[str] = (),
    per: str | None = None,
    exact: bool = False,
    workers: int = 1,
    progress: Progress = lambda share, what: None,
) -> Difference:
    """Compare two forecasts; what is not a result is simulated first.

    Parameters
    ----------
    a, b
        Each a `Sweep`, a scenario or the file, folder or name of one. Without `b`, both are `a`.
    overrides
        Texts such as `num_gpus=8`, set in all scenarios.
    a_settings, b_settings
        Such texts for one of the two. Where the key is an axis, they choose the points with this value.
    per
        What seconds are counted for: `iteration`, `sample`, `token` or `gpu-sample`. Without, it is an iteration where
        both runs train as many samples in it, or as many on each GPU, and otherwise a sample or a token.
    exact, workers
        As in `clustersim.sweep`.

    Raises
    ------
    InputError
        If an input is wrong, or if it cannot be decided which points are compared.
    """
    both = (a, a_settings), (a if b is None else b, b_settings)
    sides = []
    for number, (source, settings) in enumerate(both):

        def tell(share: float, what: str, number: int = number) -> None:
            progress((number + share) / 2, f"{'AB'[number]}: {what}" if what else "AB"[number])

        sides.append(_side("AB"[number], source, (overrides, settings), exact, workers, tell))
    pairs = _pairs(*sides)
    differences = tuple(PointDifference((sides[0].sweep, sides[1].sweep), pair, basis_of(*pair, per)) for pair in pairs)
    lone = [
        tuple(run.axes for run in side.runs if not any(run is pair[number] for pair in pairs))
        for number, side in enumerate(sides)
    ]
    return Difference((sides[0].name, sides[1].name), differences, *lone)


def _side(
    letter: str,
    source: Source,
    texts: tuple[Sequence[str], Sequence[str]],
    exact: bool,
    workers: int,
    progress: Progress,
) -> Side:
    """Return one of the two, simulated if it is a scenario."""
    overrides, settings = texts
    wanted = dict(map(_split, settings))
    name = " ".join([_name(source), *settings])
    saved = source if isinstance(source, Sweep) else _saved(source)
    if saved is None:
        assert not isinstance(source, Sweep)
        made = sweep(_loaded(source, overrides, settings), progress, exact=exact, workers=workers)
        return Side(letter, name, made, made.runs, frozenset(wanted))
    chosen = tuple(run for run in saved.runs if _has(run.axes, wanted))
    if not chosen:
        points = _points(Side(letter, name, saved, saved.runs))
        message = f"{letter} ({_name(source)}) has no point with {', '.join(settings)}; its points are {points}"
        raise InputError(message, key=f"--{letter.lower()}", got=", ".join(settings), allowed=points)
    return Side(letter, name, saved, chosen, frozenset(wanted))


def _name(source: Source) -> str:
    if isinstance(source, Sweep | Scenario):
        return source.name
    return str(source.get("name", "scenario")) if isinstance(source, Mapping) else str(source)


def _saved(source: Source) -> Sweep | None:
    """Return a saved run, from its folder or file; None where the source is no such file."""
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if path.is_dir():
        return read_sweep(path)
    if not path.is_file() or not path.name.endswith((".json", ".json.gz")):
        return None
    if path.suffix == ".gz":
        return read_sweep(path)
    with path.open("rb") as file:
        return read_sweep(path) if RESULT_SCHEMA.encode() in file.read(_HEAD_BYTES) else None


def _loaded(
    source: Scenario | str | Path | Mapping[str, Any], overrides: Sequence[str], settings: Sequence[str]
) -> Scenario:
    """Return a scenario with only the points that settings of its axes choose; the other settings are set in it."""
    if not settings:
        return load_scenario(source, overrides=overrides)
    try:
        whole = load_scenario(source, overrides=overrides)
    except InputError:  # it may be right with the settings
        return load_scenario(source, overrides=[*overrides, *settings])
    wanted = {
        key: value
        for key, value in map(_split, settings)
        if any(setting_text(label) == value for label in whole.axes.get(key, ()))
    }
    others = [text for text in settings if _split(text)[0] not in wanted]
    loaded = load_scenario(source, overrides=[*overrides, *others]) if others else whole
    points = [point for point in loaded.points() if _has(point.axes, wanted)]
    return Scenario(loaded.name, loaded.tree(), points, loaded.anchors) if points else loaded


def _split(setting: str) -> tuple[str, str]:
    """Return key and value of a setting.

    >>> _split("num_gpus = 8")
    ('num_gpus', '8')
    """
    key, sign, value = setting.partition("=")
    if not sign or not key.strip():
        raise InputError(f"expected KEY=VALUE, such as num_gpus=8 (got {setting!r})", got=setting, allowed="KEY=VALUE")
    return key.strip(), value.strip()


def _has(axes: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Return whether a point has these values on its axes."""
    return all(key in axes and setting_text(axes[key]) == value for key, value in wanted.items())


def _pairs(a: Side, b: Side) -> list[tuple[Run, Run]]:
    """Return which run is compared with which: the only ones, or those with equal values on all axes of either.

    Axes of which the user chose values for one of the two are where these differ on purpose.
    """
    if len(a.runs) == len(b.runs) == 1:
        return [(a.runs[0], b.runs[0])]
    axes = dict.fromkeys(key for side in (a, b) for run in side.runs for key in run.axes)
    keys = [key for key in axes if key not in a.chosen | b.chosen]
    places = [[_values(side, run, keys) for run in side.runs] for side in (a, b)]
    found = [
        (one, two)
        for one, here in zip(a.runs, places[0], strict=True)
        for two, there in zip(b.runs, places[1], strict=True)
        if here == there
    ]
    sure = all(len({id(pair[number]) for pair in found}) == len(found) for number in (0, 1))
    if not found or not sure:
        raise _undecided(a, b)
    return found


def _values(side: Side, run: Run, keys: Sequence[str]) -> list[str]:
    """Return the values of a run for these keys, of its axes or else of its scenario."""
    scenario = at_point(side.sweep.scenario, run.axes)
    return [setting_text(run.axes[key] if key in run.axes else _at(scenario, key)) for key in keys]


def _at(value: Any, key: str) -> Any:
    """Return the value of a dotted key; None where there is none."""
    for part in key.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def _undecided(a: Side, b: Side) -> InputError:
    lines = [f"  {side.letter} ({side.name}): {_points(side)}" for side in (a, b)]
    message = "it cannot be decided which points to compare; choose one of each by --a KEY=VALUE and --b KEY=VALUE:"
    return InputError(
        "\n".join([message, *lines]), got=f"{len(a.runs)} and {len(b.runs)} points", allowed="one of each"
    )


def _points(side: Side) -> str:
    """Return the points of one of the two as a text."""
    points = [", ".join(f"{key}={setting_text(value)}" for key, value in run.axes.items()) for run in side.runs]
    more = len(points) - _MOST_SHOWN
    shown = [text or "one without axes" for text in points[:_MOST_SHOWN]]
    return "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])
