"""Two forecasts from scenarios, saved runs or points of sweeps, and which point is compared with which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from clustersim import __version__
from clustersim.difference.basis import BASES, basis_of
from clustersim.difference.difference import Difference, FailedPoint, PointDifference
from clustersim.difference.one_by_one import Simulate, key_effects
from clustersim.difference.settings import at_point, setting_text, value_at
from clustersim.errors import ClustersimError, InputError, SimulationError, unknown_name
from clustersim.report.text_table import plain
from clustersim.report.words import plural
from clustersim.results import Run, Sweep, read_sweep
from clustersim.results.point_error import RETRIED_KINDS
from clustersim.results.run import RESULT_SCHEMA
from clustersim.scenario import Scenario, load_scenario
from clustersim.sweep import sweep

Source = Sweep | Scenario | str | Path | Mapping[str, Any]
"""A result, a scenario, or the file or name of either."""

Progress = Callable[[float, str], None]

_HEAD_BYTES = 4096
_MOST_SHOWN = 12


class Side(NamedTuple):
    """One of the two: its letter, what it is called, and its points, which are simulated if it is a scenario.

    `scenario` is as in `Sweep.scenario`, `axes` are those of each point, and `chosen` are the keys that are set for it
    alone.
    """

    letter: str
    name: str
    source: Sweep | Scenario
    scenario: Mapping[str, Any]
    axes: tuple[Mapping[str, Any], ...]
    chosen: frozenset[str]


Pair = tuple[int, int]
"""The numbers of the points that are compared."""


def diff(
    a: Source,
    b: Source | None = None,
    *,
    overrides: Sequence[str] = (),
    a_settings: Sequence[str] = (),
    b_settings: Sequence[str] = (),
    per: str | None = None,
    one_by_one: bool = False,
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
    one_by_one
        Whether the first scenario is also simulated with each key of the second alone, if several differ.
    exact, workers
        As in `clustersim.sweep`.

    Raises
    ------
    InputError
        If an input is wrong, or if it cannot be decided which points are compared.
    SimulationError
        If a simulation cannot end, of the only points that are compared. Of several points those that have a forecast
        in both are compared.
    """
    if per is not None and per not in BASES:
        raise unknown_name("basis", per, BASES)
    second = a if b is None else b
    sides = _side("A", a, (overrides, a_settings)), _side("B", second, (overrides, b_settings))
    pairs = _pairs(*sides)
    results = _both(sides, pairs, exact, workers, progress)
    runs = list(zip(results[0].runs, results[1].runs, strict=True))
    failed = tuple(_failed(runs))
    compared = [pair for pair in runs if all(run.error is None for run in pair)]
    if not compared:
        raise _nothing_ran(failed[0])
    differences = tuple(PointDifference(results, pair, basis_of(*pair, per)) for pair in compared)
    only_a, only_b = (_lone(side, {pair[number] for pair in pairs}) for number, side in enumerate(sides))
    found = Difference((sides[0].name, sides[1].name), differences, only_a, only_b, failed)
    if not one_by_one:
        return found
    simulate = _simulate_alone(a, found.main.sweeps[0], overrides, a_settings, exact)
    return replace(found, effects=key_effects(found.main, simulate, progress))


def _both(
    sides: tuple[Side, Side], pairs: Sequence[Pair], exact: bool, workers: int, progress: Progress
) -> tuple[Sweep, Sweep]:
    """Return the results of the points that are compared, simulated where a side is a scenario."""

    def result_of(number: int, side: Side) -> Sweep:
        def tell(share: float, what: str) -> None:
            progress((number + share) / 2, f"{side.letter}: {what}" if what else side.letter)

        return _results(side, [pair[number] for pair in pairs], exact, workers, tell)

    return result_of(0, sides[0]), result_of(1, sides[1])


def _failed(runs: Sequence[tuple[Run, Run]]) -> Iterator[FailedPoint]:
    """Yield each point of a pair that has no forecast."""
    for pair in runs:
        for letter, run in zip("AB", pair, strict=True):
            if run.error is not None:
                yield FailedPoint(letter, run.axes, run.error)


def _nothing_ran(first: FailedPoint) -> ClustersimError:
    """Return the error of the first point of a comparison of which no point has a forecast in both."""
    message = f"no point has a forecast in both; {first.side}: {first.error.message}"
    if first.error.kind in RETRIED_KINDS:
        return SimulationError(message)
    return InputError(message, got=first.error.kind, allowed="a point that runs in both")


def _simulate_alone(
    source: Source, result: Sweep, overrides: Sequence[str], settings: Sequence[str], exact: bool
) -> Simulate:
    """Return what simulates the first scenario with further settings.

    A saved run must be of this version: otherwise the version and the setting could not be told apart.
    """
    is_saved = isinstance(source, Sweep) or _saved(source) is not None
    if is_saved and result.version != __version__:
        message = f"A is of clustersim {result.version}, and keys are changed one by one with this one, {__version__}"
        raise InputError(message, key="--one-by-one", got=result.version, allowed=__version__)
    axes = {key for run in result.runs for key in run.axes}
    others = [text for text in settings if _split(text)[0] not in axes]
    base: Any = dict(result.scenario) if is_saved else source
    texts = [f"seed={result.seed}"] if is_saved else [*overrides, *others]

    def simulate(changes: Sequence[str], left_out: str) -> Sweep:
        loaded = load_scenario(base, overrides=[*texts, *changes])
        if left_out:
            loaded = load_scenario({key: value for key, value in loaded.raw.items() if key != left_out})
        if len(loaded.points()) > 1:
            raise InputError("this key makes several points")
        return sweep(loaded, exact=exact, learns=False)

    return simulate


def _lone(side: Side, compared: set[int]) -> tuple[Mapping[str, Any], ...]:
    return tuple(axes for number, axes in enumerate(side.axes) if number not in compared)


def _results(side: Side, wanted: Sequence[int], exact: bool, workers: int, progress: Progress) -> Sweep:
    """Return the results of these points of a side, in this order."""
    if isinstance(side.source, Sweep):
        return replace(side.source, runs=tuple(side.source.runs[number] for number in wanted))
    chosen = _only(side.source, wanted)
    return sweep(chosen, progress, exact=exact, workers=workers, strict=len(wanted) == 1, learns=False)


def _only(loaded: Scenario, wanted: Sequence[int]) -> Scenario:
    """Return a scenario with only these of its points."""
    trees = loaded.trees()
    return Scenario(loaded.name, loaded.tree(), [trees[number] for number in wanted], loaded.anchors)


def _side(letter: str, source: Source, texts: tuple[Sequence[str], Sequence[str]]) -> Side:
    """Return one of the two with all its points, or with those that the settings of its axes choose."""
    overrides, settings = texts
    wanted = dict(map(_split, settings))
    name = " ".join([_name(source), *settings])
    saved = source if isinstance(source, Sweep) else _saved(source)
    if saved is None:
        assert not isinstance(source, Sweep)
        loaded = _loaded(source, overrides, settings)
        axes = tuple(tree.axes for tree in loaded.trees())
        return Side(letter, name, loaded, {"name": loaded.name, **loaded.raw}, axes, frozenset(wanted))
    chosen = replace(saved, runs=tuple(run for run in saved.runs if _has(run.axes, wanted)))
    if not chosen.runs:
        points = _points([run.axes for run in saved.runs])
        message = f"{letter} ({_name(source)}) has no point with {', '.join(settings)}; its points are {points}"
        raise InputError(message, key=f"--{letter.lower()}", got=", ".join(settings), allowed=points)
    return Side(letter, name, chosen, saved.scenario, tuple(run.axes for run in chosen.runs), frozenset(wanted))


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
        return load_scenario(source, overrides=overrides, strict=False)
    try:
        whole = load_scenario(source, overrides=overrides, strict=False)
    except InputError:  # it may be right with the settings
        return load_scenario(source, overrides=[*overrides, *settings], strict=False)
    wanted = {
        key: value
        for key, value in map(_split, settings)
        if any(setting_text(label) == value for label in whole.axes.get(key, ()))
    }
    others = [text for text in settings if _split(text)[0] not in wanted]
    loaded = load_scenario(source, overrides=[*overrides, *others], strict=False) if others else whole
    numbers = [number for number, tree in enumerate(loaded.trees()) if _has(tree.axes, wanted)]
    return _only(loaded, numbers) if numbers else loaded


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


def _pairs(a: Side, b: Side) -> list[Pair]:
    """Return which point is compared with which: the only ones, or those with equal values on all axes of either.

    An axis of which the user chose one value, and of which neither has several left, is where they differ on purpose.
    """
    if len(a.axes) == len(b.axes) == 1:
        return [(0, 0)]
    keys = list(dict.fromkeys(key for each in (*a.axes, *b.axes) for key in each))
    keys = [key for key in keys if key not in a.chosen | b.chosen or any(_varies(side, key) for side in (a, b))]
    places: dict[tuple[str, ...], list[int]] = {}
    for number, axes in enumerate(b.axes):
        places.setdefault(_values(b, axes, keys), []).append(number)
    found = [(one, two) for one, axes in enumerate(a.axes) for two in places.get(_values(a, axes, keys), ())]
    is_sure = all(len({pair[number] for pair in found}) == len(found) for number in (0, 1))
    if not found or not is_sure:
        raise _undecided(a, b)
    return found


def _varies(side: Side, key: str) -> bool:
    return len({setting_text(axes.get(key)) for axes in side.axes}) > 1


def _values(side: Side, axes: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a point for these keys, of its axes or else of its scenario."""
    scenario = at_point(side.scenario, axes) if any(key not in axes for key in keys) else {}
    return tuple(setting_text(axes[key] if key in axes else value_at(scenario, key)) for key in keys)


def _undecided(a: Side, b: Side) -> InputError:
    lines = [f"  {side.letter} ({side.name}): {_points(side.axes)}" for side in (a, b)]
    message = "it cannot be decided which points to compare; choose one of each by --a KEY=VALUE and --b KEY=VALUE:"
    got = f"{plural(len(a.axes), 'point')} and {plural(len(b.axes), 'point')}"
    return InputError("\n".join([message, *lines]), got=plain(got), allowed="one of each")


def _points(axes: Sequence[Mapping[str, Any]]) -> str:
    """Return points as a text."""
    points = [", ".join(f"{key}={setting_text(value)}" for key, value in each.items()) for each in axes]
    more = len(points) - _MOST_SHOWN
    shown = [text or "one without axes" for text in points[:_MOST_SHOWN]]
    return "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])
