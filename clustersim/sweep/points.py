"""Simulation of all points of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_callable, check_number
from clustersim.results import Sweep
from clustersim.scenario import Point, Scenario, SweepPoint, at_points, load_scenario
from clustersim.simulate import AnchorFit, Forecast, Workloads, fit_scenario, forecast_anchored
from clustersim.sweep.pool import ProcessPool

Progress = Callable[[float, str], None]
"""Takes the share of the sweep that is done, 0 to 1, and the point in progress."""


def sweep(
    scenario: Scenario | str | Path | Mapping[str, Any],
    progress: Progress = lambda share, point: None,
    *,
    exact: bool = False,
    workers: int = 1,
    workloads: Workloads | None = None,
) -> Sweep:
    """Simulate all points of a scenario: a `Scenario`, a name, a path or a mapping.

    `exact` turns all shortcuts off. `workers` is the number of processes, 0 for one per core; the result does not
    depend on it, nor on `workloads`, which sweeps in this process may share.
    """
    check_number("workers", workers, least=0, is_whole=True)
    check_callable("progress", progress, "a function of a share and a point")
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    points, workloads = loaded.points(), Workloads() if workloads is None else workloads
    found = fit_scenario(loaded, exact, workloads, lambda what: progress(0.0, what))
    labels = [", ".join(f"{key} {value}" for key, value in axes.items()) for axes, _ in points]
    if workers == 1 or len(points) == 1:
        forecasts = _sequential(points, labels, progress, exact, found, workloads)
    else:
        forecasts = _parallel(points, labels, progress, exact, found, workers)
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


def _sequential(
    points: list[SweepPoint],
    labels: list[str],
    progress: Progress,
    exact: bool,
    found: AnchorFit | None,
    workloads: Workloads,
) -> list[Forecast]:
    """Return the forecast of each point, with one cache for all."""
    forecasts = []
    for number, (axes, point) in enumerate(points):

        def tell(share: float, number: int = number) -> None:
            progress((number + share) / len(points), labels[number])

        made = forecast_anchored(point, axes, found, exact=exact, on_progress=tell, workloads=workloads)
        forecasts.append(made)
    return forecasts


def _parallel(
    points: list[SweepPoint],
    labels: list[str],
    progress: Progress,
    exact: bool,
    found: AnchorFit | None,
    workers: int,
) -> list[Forecast]:
    """Return the forecast of each point, from several processes."""

    def on_done(number: int, num_done: int) -> None:
        progress(num_done / len(points), labels[number])

    with ProcessPool(workers) as pool:
        tasks = [(axes, point, exact, found) for axes, point in points]
        order = sorted(range(len(points)), key=lambda number: -points[number].point.num_gpus)
        return pool.map(_forecast, tasks, on_done, order)


def _forecast(task: tuple[dict[str, Any], Point, bool, AnchorFit | None]) -> Forecast:
    """Return the forecast of a point in a worker process, with the cache of the process."""
    axes, point, exact, found = task
    return forecast_anchored(point, axes, found, exact=exact, workloads=_WORKLOADS)


_WORKLOADS = Workloads()
"""Cache of a worker process."""


def _warnings(groups: list[tuple[str, ...]], axes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return every warning once; warnings that not all points have name their points."""
    warnings = []
    for warning in _all(groups):
        where = at_points([number for number, group in enumerate(groups) if warning in group], axes)
        warnings.append(f"{warning} (at {where})" if where else warning)
    return tuple(warnings)


def _all(groups: Any) -> tuple[str, ...]:
    """Return the distinct texts in the order of their first occurrence."""
    return tuple(dict.fromkeys(sentence for group in groups for sentence in group))
