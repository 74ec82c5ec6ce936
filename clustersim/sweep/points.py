"""Simulation of all points of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_callable, check_number
from clustersim.results import Sweep
from clustersim.scenario import PointTree, Scenario, load_scenario
from clustersim.simulate import Forecast, Workloads, check_can_learn, fit_scenario
from clustersim.sweep.executor import Executor
from clustersim.sweep.executor_by_name import open_executor
from clustersim.sweep.point_forecasts import point_forecasts
from clustersim.sweep.sentences import Sentences
from clustersim.sweep.task import PointTask, forecast_point

Progress = Callable[[float, str], None]
"""Takes the share of the sweep that is done, 0 to 1, and the point in progress."""


def sweep(
    scenario: Scenario | str | Path | Mapping[str, Any],
    progress: Progress = lambda share, point: None,
    *,
    exact: bool = False,
    workers: int = 1,
    workloads: Workloads | None = None,
    strict: bool = False,
    point_timeout_s: float | None = None,
    executor: Executor | str | None = None,
    where: Sequence[str] = (),
    learns: bool = True,
) -> Sweep:
    """Simulate all points of a scenario: a `Scenario`, a name, a path or a mapping.

    A point that cannot be simulated is a run with an `error`; if `strict`, and where it is the only point, InputError
    or SimulationError is raised instead. `exact` turns all shortcuts off. `workers` is the number of processes, 0 for
    one per core; the result does not depend on it, nor on the `executor`, which is one or what `open_executor` takes
    (`"dask"`, `"tcp://host:8786"`), nor on `workloads`, which sweeps in this process may share. A point may take
    `point_timeout_s`. `where` are conditions on the points, such as `num_gpus <= 64`. Unless it `learns`, the task of
    the key `learning` is not trained, and the forecasts are those of the scenario without the task.
    """
    check_number("workers", workers, least=0, is_whole=True)
    if point_timeout_s is not None:
        check_number("point_timeout_s", point_timeout_s, above=0)
    check_callable("progress", progress, "a function of a share and a point")
    if isinstance(executor, str):
        executor = open_executor(executor, workers)
    loaded = load_scenario(scenario, strict=strict, where=where)
    strict = strict or len(loaded.trees()) == 1
    if strict:
        loaded.points()
    trees, workloads = loaded.trees(), Workloads() if workloads is None else workloads
    if learns:
        check_can_learn(loaded)
    found = fit_scenario(loaded, exact, workloads, lambda what: progress(0.0, what))

    def task(number: int) -> PointTask:
        return PointTask(trees[number], exact, found, timeout_s=point_timeout_s, strict=strict, learns=learns)

    if executor is None and (workers == 1 or len(trees) == 1):
        forecasts = _sequential(map(task, range(len(trees))), len(trees), progress, workloads)
    else:
        forecasts = _parallel(task, trees, progress, executor or open_executor("processes", workers))
    return sweep_of(loaded, forecasts)


def sweep_of(loaded: Scenario, forecasts: Sequence[Forecast]) -> Sweep:
    """Return the sweep of a scenario from the forecast of each of its points."""
    said = Sentences()
    for made in forecasts:
        said.add(made)
    return Sweep(
        version=__version__,
        scenario={"name": loaded.name, **loaded.raw},
        seed=loaded.trees()[0].seed,
        runs=tuple(made.run for made in forecasts),
        assumptions=said.assumptions,
        warnings=said.warnings,
        shortcuts=said.shortcuts,
        scenario_text=loaded.yaml(),
    )


def _label(tree: PointTree) -> str:
    return ", ".join(f"{key} {value}" for key, value in tree.axes.items())


def _sequential(tasks: Iterable[PointTask], num_tasks: int, progress: Progress, workloads: Workloads) -> list[Forecast]:
    """Return the forecast of each point, with one cache for all."""
    forecasts = []
    for number, task in enumerate(tasks):

        def tell(share: float, number: int = number, label: str = _label(task.tree)) -> None:
            progress((number + share) / num_tasks, label)

        forecasts.append(forecast_point(task, workloads, tell))
    return forecasts


def _parallel(
    task: Callable[[int], PointTask], trees: Sequence[PointTree], progress: Progress, executor: Executor
) -> list[Forecast]:
    """Return the forecast of each point from an executor, the points of the most GPUs first.

    The task of a point is made when a worker can take it.
    """
    num_gpus = [tree.num_gpus for tree in trees]
    order = sorted(range(len(trees)), key=lambda number: -num_gpus[number])
    found: dict[int, Forecast] = {}
    with executor:
        for place, made in point_forecasts(executor, map(task, order)):
            found[order[place]] = made
            progress(len(found) / len(trees), _label(trees[order[place]]))
    return [found[number] for number in range(len(trees))]
