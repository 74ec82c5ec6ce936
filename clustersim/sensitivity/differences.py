"""Why a run is not faster: forward differences over its resources, and the upgrades that could be bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.arguments import check_callable, check_number, check_texts
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.speeds import Speeds
from clustersim.results import Run
from clustersim.scenario import Point, Scenario
from clustersim.sensitivity.forecasts import ChangedPoint, Progress, forecast_all, forecast_alone
from clustersim.sensitivity.point import Chosen, choose, with_stages_kept
from clustersim.sensitivity.resources import Resource, resources_of
from clustersim.sensitivity.result import Gain, Upgrade, Why, gain_of
from clustersim.sensitivity.sentences import sentences
from clustersim.sensitivity.upgrades import candidates, hourly_price, priced, ranked
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup
from clustersim.stragglers import are_constant

TOGETHER = "all"
MOST = 9.0
"""Largest change: ten times as fast."""


def why(
    scenario: Scenario | str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    by: float = 0.1,
    upgrades: bool = True,
    exact: bool = False,
    workers: int = 1,
    progress: Progress = lambda share, what: None,
) -> Why:
    """Return what the run of a scenario would gain from each of its resources, and from upgrades.

    Parameters
    ----------
    scenario
        A `Scenario`, the path of a file, the name of a shipped scenario, or a mapping of the keys of a scenario. Of a
        sweep, the point with the most GPUs is explained, and of several such the fastest.
    overrides
        Texts of `--set`, which may select another point.
    by
        How much faster each resource is made, alone: 0.1 for 10 %. Its rates are multiplied by 1.1, its delays divided.
    upgrades
        Whether hardware with a name is tried too: other GPUs, the next link, more cards.
    exact
        Take no shortcut. The numbers stay the same; it takes longer.
    workers
        Number of processes, 0 for one per core. The result does not depend on it.

    Raises
    ------
    InputError
        If the scenario is wrong, or has too many points with the most GPUs.
    """
    check_texts("overrides", overrides, "a list of texts such as 'num_gpus=8'")
    check_number("by", by, above=0, most=MOST)
    check_number("workers", workers, least=0, is_whole=True)
    check_callable("progress", progress, "a function of a share and a name")
    workloads = Workloads()
    chosen = choose(scenario, overrides, exact, workloads)
    setup = Setup(chosen.point, workloads, detail=False)
    point = with_stages_kept(chosen.point, setup.laid_out)
    before = forecast_alone(point, exact, workloads)
    resources = resources_of(setup, before)
    offered = candidates(chosen) if upgrades else []
    tasks = _tasks(point, resources, by)
    more = [ChangedPoint(each.point, each.upgrade.then) for each in offered if each.point is not None]
    found = forecast_all([*tasks.values(), *more], point, exact, workers, workloads, progress)
    runs = dict(zip(tasks, found[: len(tasks)], strict=True))
    price = hourly_price(before)
    gains = [_gain(before, each, runs, by, price) for each in resources]
    after = iter(found[len(tasks) :])
    tried = [
        each.upgrade if each.point is None else priced(each.upgrade, before, next(after), each.point)
        for each in offered
    ]
    together = gain_of(before, _run(runs[TOGETHER]), TOGETHER, "everything together", by, price)
    return _told(chosen, setup, before, gains, together, tried, by)


def _told(
    chosen: Chosen, setup: Setup, before: Run, gains: list[Gain], together: Gain, tried: list[Upgrade], by: float
) -> Why:
    """Return the answer with its sentences."""
    found = Why(
        version=__version__,
        name=chosen.name,
        axes=dict(chosen.axes),
        num_points=chosen.num_points,
        settings=chosen.texts,
        seed=setup.point.seed,
        by=by,
        num_gpus=setup.point.num_gpus,
        gpu=", ".join(load_gpu(kind).name for kind in setup.kinds_in_use),
        iteration_s=before.iteration_s,
        samples_per_s=before.samples_per_s,
        tokens_per_sample=before.tokens_per_sample,
        breakdown_s={part: seconds for part, seconds in before.breakdown_s.items() if seconds},
        unit="tokens" if before.tokens_per_sample else "samples",
        dollars_per_hour=hourly_price(before),
        dollars_per_million=before.dollars_per_million("tokens" if before.tokens_per_sample else "samples"),
        gains=tuple(sorted(gains, key=lambda each: (bool(each.idle), -each.gain))),
        together=together,
        upgrades=ranked(tried),
        notes=_notes(chosen, setup.point),
    )
    return replace(found, sentences=sentences(found))


def _tasks(point: Point, resources: Sequence[Resource], by: float) -> dict[str, ChangedPoint]:
    """Return the points to forecast: each resource that may matter is faster alone, then all of them are."""
    alone = {
        each.name: ChangedPoint(point.at_speeds(Speeds.of({each.name: 1 + by})), each.title)
        for each in resources
        if not each.idle
    }
    every = Speeds.of({each.name: 1 + by for each in resources})
    return {**alone, TOGETHER: ChangedPoint(point.at_speeds(every), "everything together")}


def _gain(
    before: Run, resource: Resource, runs: Mapping[str, Run | InputError], by: float, price: float | None
) -> Gain:
    after = before if resource.idle else _run(runs[resource.name])
    return replace(gain_of(before, after, resource.name, resource.title, by, price), idle=resource.idle)


def _run(found: Run | InputError) -> Run:
    """Return a forecast; raise the error of a point that is refused although only its rates differ."""
    if isinstance(found, InputError):
        raise found
    return found


def _notes(chosen: Chosen, point: Point) -> tuple[str, ...]:
    """Return what a reader should know of the differences."""
    notes = []
    if not are_constant(point.stragglers) or point.failures is not None or (point.input and point.input.cv):
        notes.append(f"All runs have the same random draws (seed {point.seed}).")
    if chosen.found is not None:
        notes.append("Measured runs scale all kernels, those of other GPUs too.")
    return tuple(notes)
