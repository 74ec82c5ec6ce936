"""Forecasts a scenario that is no sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.results import Run
from clustersim.scenario import Scenario, load_scenario
from clustersim.simulate.anchoring import fit_scenario, forecast_anchored
from clustersim.simulate.learning import check_can_learn
from clustersim.simulate.setup import Workloads


def simulate(scenario: Scenario | str | Path | Mapping[str, Any], *, exact: bool = False, learns: bool = True) -> Run:
    """Forecast a scenario that has one point; `clustersim.sweep` takes those with several.

    Parameters
    ----------
    scenario
        A `Scenario`, the path of a file, the name of a shipped scenario, or a mapping of the keys of a scenario.
    exact
        Take no shortcut. The numbers stay the same; it takes longer.
    learns
        Train the task of the key `learning`, if the scenario has it; it needs the extra `learning`.

    Raises
    ------
    InputError
        If the scenario is wrong or has several points.
    """
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    points = loaded.points()
    if len(points) != 1:
        raise InputError(
            f"'{loaded.name}' is a sweep of {len(points)} points; use clustersim.sweep",
            got=str(len(points)),
            allowed="1",
        )
    if learns:
        check_can_learn(loaded)
    workloads = Workloads()
    found = fit_scenario(loaded, exact, workloads)
    point, axes = points[0].point, points[0].axes
    try:
        return forecast_anchored(point, axes, found, exact=exact, workloads=workloads, learns=learns).run
    except InputError as error:
        raise loaded.located(error) from None
