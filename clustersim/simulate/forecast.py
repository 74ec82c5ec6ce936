"""Simulates all replicates of one point and returns its `Run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clustersim.execution.job import OnProgress
from clustersim.garbage_collection import rare_collections
from clustersim.results import Run
from clustersim.results.checked import band_of_run
from clustersim.scenario import Point
from clustersim.shortcuts import Shortcut
from clustersim.simulate.concurrent_jobs import jobs_assumption, setups_of, simulate_jobs
from clustersim.simulate.features import assumed_rates
from clustersim.simulate.learning import learning_assumptions, learning_of
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
    baseline is looked for, and the run is its own. If it `learns`, the scenario's task is really trained.
    """
    jobs, setups = point.each_job(), setups_of(point, workloads, detail, numba_from_messages)
    setup = setups[0]
    memory_warnings = _unique(each.memory_warnings() for each in setups)
    outcomes: list[Outcome] = []
    for number in range(point.replicates):

        def on_replicate_progress(share: float, number: int = number) -> None:
            on_progress((number + share) / point.replicates)

        is_known = number and not exact and all(_repeats_the_first(each, number) for each in setups)
        if is_known:
            outcomes.append(outcomes[0])
        elif len(jobs) == 1:
            outcomes.append(simulate_replicate(setup, number, exact, on_replicate_progress))
        else:
            outcomes.append(simulate_jobs(jobs, setups, number, exact, on_replicate_progress))
    outcomes, failure_times = with_failures(setup, outcomes)
    run = replace(run_of(setup, axes or {}, outcomes, detail, compares), failures=failure_times)
    warnings = scenario_warnings(setup, run, outcomes)
    shortcuts = dict.fromkeys(shortcut for outcome in outcomes for shortcut in outcome.shortcuts)
    used = [links.kind for links in run.link_classes if links.num_used]
    run = with_band(setup, run, used)
    if learns:
        beside = list(zip(jobs, setups, strict=True)) if len(jobs) > 1 else []
        run = replace(run, learning=learning_of(setup, exact=exact, jobs=beside, failures=failure_times))
    of_task = learning_assumptions(setup) if learns else ()
    assumptions = _unique([jobs_assumption(point), *(each.assumptions(used) for each in setups), of_task])
    return Forecast(run, assumptions, (*memory_warnings, *warnings), tuple(shortcuts))


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
