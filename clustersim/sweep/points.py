"""Every point of a scenario becomes a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_callable
from clustersim.results import Sweep
from clustersim.scenario import Scenario, load_scenario
from clustersim.simulate import Workloads, forecast

Progress = Callable[[float, str], None]
"""Told which share of the sweep is done, 0 to 1, and which point is being played."""


def sweep(
    scenario: Scenario | str | Path | Mapping[str, Any],
    progress: Progress = lambda share, point: None,
    *,
    exact: bool = False,
) -> Sweep:
    """Simulate all points of a scenario, given as one, by name, by path or as a mapping.

    `exact` turns every shortcut off.
    """
    check_callable("progress", progress, "a function of a share and a point")
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    points = loaded.points()
    forecasts, labels, workloads = [], [], Workloads()
    for number, (axes, point) in enumerate(points):
        label = ", ".join(f"{key} {value}" for key, value in axes.items())

        def tell(share: float, number: int = number, label: str = label) -> None:
            progress((number + share) / len(points), label)

        forecasts.append(forecast(point, axes, exact=exact, tell=tell, workloads=workloads))
        labels.append(label)
    return Sweep(
        version=__version__,
        scenario={"name": loaded.name, **loaded.raw},
        seed=points[0].point.seed,
        runs=tuple(made.run for made in forecasts),
        assumptions=_all(made.assumptions for made in forecasts),
        warnings=_warnings([made.warnings for made in forecasts], labels),
        shortcuts=_all(made.shortcuts for made in forecasts),
        scenario_text=loaded.yaml(),
    )


def _warnings(groups: list[tuple[str, ...]], labels: list[str]) -> tuple[str, ...]:
    """Return every warning once, and of those that not all points have, at which points it came up."""
    told = []
    for warning in _all(groups):
        where = [label for label, group in zip(labels, groups, strict=True) if warning in group]
        told.append(warning if len(where) == len(groups) else f"{warning} (at {'; '.join(where)})")
    return tuple(told)


def _all(groups: Any) -> tuple[str, ...]:
    """Return every sentence once, in the order in which they first came."""
    return tuple(dict.fromkeys(sentence for group in groups for sentence in group))
