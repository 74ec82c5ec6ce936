"""Every point of a scenario becomes a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_callable, check_number
from clustersim.results import Sweep
from clustersim.scenario import Point, Scenario, SweepPoint, at_points, load_scenario
from clustersim.simulate import Forecast, Workloads, forecast
from clustersim.sweep.pool import Pool

Progress = Callable[[float, str], None]
"""Told which share of the sweep is done, 0 to 1, and which point is being played."""


def sweep(
    scenario: Scenario | str | Path | Mapping[str, Any],
    progress: Progress = lambda share, point: None,
    *,
    exact: bool = False,
    workers: int = 1,
) -> Sweep:
    """Simulate all points of a scenario, given as one, by name, by path or as a mapping.

    `exact` turns every shortcut off. `workers` is how many processes take part, as many as there are cores where it is
    0; what comes out is the same.
    """
    check_number("workers", workers, least=0, is_whole=True)
    check_callable("progress", progress, "a function of a share and a point")
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    points = loaded.points()
    labels = [", ".join(f"{key} {value}" for key, value in axes.items()) for axes, _ in points]
    play = _one_by_one if workers == 1 or len(points) == 1 else _side_by_side
    forecasts = play(points, labels, progress, exact, workers)
    return Sweep(
        version=__version__,
        scenario={"name": loaded.name, **loaded.raw},
        seed=points[0].point.seed,
        runs=tuple(made.run for made in forecasts),
        assumptions=_all(made.assumptions for made in forecasts),
        warnings=_warnings([made.warnings for made in forecasts], [axes for axes, _ in points]),
        shortcuts=_all(made.shortcuts for made in forecasts),
        scenario_text=loaded.yaml(),
    )


def _one_by_one(
    points: list[SweepPoint], labels: list[str], progress: Progress, exact: bool, workers: int
) -> list[Forecast]:
    """Return the forecast of each point, which share what they have worked out."""
    forecasts, workloads = [], Workloads()
    for number, (axes, point) in enumerate(points):

        def tell(share: float, number: int = number) -> None:
            progress((number + share) / len(points), labels[number])

        forecasts.append(forecast(point, axes, exact=exact, on_progress=tell, workloads=workloads))
    return forecasts


def _side_by_side(
    points: list[SweepPoint], labels: list[str], progress: Progress, exact: bool, workers: int
) -> list[Forecast]:
    """Return the forecast of each point, worked out in several processes."""

    def done(number: int, how_many: int) -> None:
        progress(how_many / len(points), labels[number])

    with Pool(workers) as pool:
        asked = [(axes, point, exact) for axes, point in points]
        order = sorted(range(len(points)), key=lambda number: -points[number].point.num_gpus)
        return pool.map(_forecast, asked, done, order)


def _forecast(asked: tuple[dict[str, Any], Point, bool]) -> Forecast:
    """Return the forecast of a point in a process that may have worked out others before."""
    axes, point, exact = asked
    return forecast(point, axes, exact=exact, workloads=_WORKLOADS)


_WORKLOADS = Workloads()
"""What this process has worked out, where it is one of several."""


def _warnings(groups: list[tuple[str, ...]], axes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return every warning once, and of those that not all points have, at which points it came up."""
    told = []
    for warning in _all(groups):
        where = at_points([number for number, group in enumerate(groups) if warning in group], axes)
        told.append(f"{warning} (at {where})" if where else warning)
    return tuple(told)


def _all(groups: Any) -> tuple[str, ...]:
    """Return every sentence once, in the order in which they first came."""
    return tuple(dict.fromkeys(sentence for group in groups for sentence in group))
