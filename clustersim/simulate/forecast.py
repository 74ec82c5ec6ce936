"""Simulates all replicates of one point and returns its `Run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clustersim.execution.job import OnProgress
from clustersim.garbage_collection import rare_collections
from clustersim.results import Run
from clustersim.results.checked import band_of_run
from clustersim.scenario import JobOfMany, Point
from clustersim.shortcuts import Shortcut
from clustersim.simulate.concurrent_jobs import jobs_assumption, setups_of, simulate_jobs
from clustersim.simulate.features import assumed_rates
from clustersim.simulate.learning import Training, part_of
from clustersim.simulate.learning_scale import learning_scale_of, scale_assumptions
from clustersim.simulate.long_run import with_failures
from clustersim.simulate.outcome import Outcome
from clustersim.simulate.replicate import simulate_replicate
from clustersim.simulate.run_of import run_of
from clustersim.simulate.scenario_warnings import scenario_warnings
from clustersim.simulate.setup import Setup, Workloads
from clustersim.stragglers import are_constant


@dataclass(frozen=True)
class Forecast:
    """A run with its assumptions, its warnings and the shortcuts that were taken, all as sentences."""

    run: Run
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    shortcuts: tuple[str, ...]

    def to_dict(self, detail: bool = True) -> dict[str, Any]:
        """Return the forecast as JSON values; without `detail`, rows per span, layer, link and rank are omitted."""
        return {"run": self.run.to_dict(detail), **{key: list(getattr(self, key)) for key in _SENTENCES}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Forecast:
        """Return the forecast of `to_dict`."""
        return cls(Run.from_dict(document["run"]), **{key: tuple(document[key]) for key in _SENTENCES})


_SENTENCES = ("assumptions", "warnings", "shortcuts")


@rare_collections()
def forecast(
    point: Point,
    axes: Mapping[str, Any] | None = None,
    *,
    exact: bool = False,
    on_progress: OnProgress = lambda share: None,
    workloads: Workloads | None = None,
    detail: bool = True,
    numba_from_messages: int | None = None,
    compares: bool = True,
    learns: bool = False,
) -> Forecast:
    """Simulate one point of a scenario with all its replicates; the points of a sweep share their `workloads`.

    Without `detail` a run has no rows per span, layer, rank, iteration or gradient, as `Run.to_dict` leaves them out.
    From `numba_from_messages` on, messages are simulated by compiled kernels (see `Network`). Unless it `compares`, no
    baseline is looked for, and the run is its own. If it `learns`, the scenario's task is really trained; what it lacks
    for that is told before anything is simulated.
    """
    jobs, setups = point.each_job(), setups_of(point, workloads, detail, numba_from_messages)
    setup = setups[0]
    training = Training.of(jobs, setups) if learns else None
    on_forecast = on_progress if training is None else part_of(on_progress, 0.0, 1.0 - training.share)
    memory_warnings = _unique(each.memory_warnings() for each in setups)
    outcomes = _outcomes(jobs, setups, exact, on_forecast)
    outcomes, failure_times = with_failures(setup, outcomes)
    run = replace(run_of(setup, axes or {}, outcomes, detail, compares), failures=failure_times)
    warnings = scenario_warnings(setup, run, outcomes)
    shortcuts = dict.fromkeys(shortcut for outcome in outcomes for shortcut in outcome.shortcuts)
    used = [links.kind for links in run.link_classes if links.num_used]
    run = with_band(setup, run, used)
    run, learnt = replace(run, learning_scale=learning_scale_of(setup, run)), scale_assumptions(setup)
    if training is not None:
        on_training = part_of(on_progress, 1.0 - training.share, 1.0)
        run = replace(run, learning=training.run(exact, failure_times, on_training))
        learnt = (*training.assumptions(), *learnt)
    assumptions = _unique([jobs_assumption(point), *(each.assumptions(used) for each in setups), learnt])
    return Forecast(run, assumptions, (*memory_warnings, *warnings), tuple(shortcuts))


def _outcomes(
    jobs: Sequence[JobOfMany], setups: Sequence[Setup], exact: bool, on_progress: OnProgress
) -> list[Outcome]:
    """Return the outcome of each replicate; those that are proved to be the first one are not simulated."""
    outcomes: list[Outcome] = []
    replicates = setups[0].point.replicates
    for number in range(replicates):
        of_replicate = part_of(on_progress, number / replicates, (number + 1) / replicates)
        is_known = number and not exact and all(_repeats_the_first(each, number) for each in setups)
        if is_known:
            outcomes.append(outcomes[0])
        elif len(jobs) == 1:
            outcomes.append(simulate_replicate(setups[0], number, exact, of_replicate))
        else:
            outcomes.append(simulate_jobs(jobs, setups, number, exact, of_replicate))
    return outcomes


def with_band(setup: Setup, run: Run, link_kinds: Iterable[str]) -> Run:
    """Return the run with its band; `link_kinds` are those of the links that it used."""
    is_estimated = run.features is not None and run.features.origin == "estimated"
    return replace(run, band=band_of_run(run, assumed_rates(setup, link_kinds, is_estimated)))


def _unique(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return every sentence once."""
    return tuple(dict.fromkeys(sentence for group in groups for sentence in group))


def _repeats_the_first(setup: Setup, replicate: int) -> bool:
    """Return whether the iterations of a replicate are those of the first one: only failures may be random."""
    point = setup.point
    is_steady = point.strategy.allows(Shortcut.IDENTICAL_REPLICATES) and are_constant(point.stragglers)
    is_certain = is_steady and (point.input is None or point.input.cv == 0)
    return is_certain and np.array_equal(setup.gpus(0), setup.gpus(replicate))
