"""From a point to a `Run`: play every replicate and work out the figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.errors import InputError
from clustersim.execution.job import OnProgress
from clustersim.results import Run
from clustersim.scenario import Point, Scenario, load_scenario
from clustersim.simulate.garbage import seldom_collected
from clustersim.simulate.jobs import play_together, setups_of, told_of_jobs
from clustersim.simulate.long_run import with_failures
from clustersim.simulate.notes import notes_of
from clustersim.simulate.outcome import Outcome
from clustersim.simulate.play import play
from clustersim.simulate.run_of import run_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.without_effect import without_effect
from clustersim.simulate.workloads import Workloads
from clustersim.stragglers import Spells
from clustersim.strategies import Servers
from clustersim.units import format_duration


@dataclass(frozen=True)
class Forecast:
    """A run, and what it stands on."""

    run: Run
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    shortcuts: tuple[str, ...]


def simulate(scenario: Scenario | str | Path | Mapping[str, Any], *, exact: bool = False) -> Run:
    """Forecast a scenario that has one point; `clustersim.sweep` takes those with several."""
    loaded = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    points = loaded.points()
    if len(points) != 1:
        raise InputError(
            f"'{loaded.name}' is a sweep of {len(points)} points; use clustersim.sweep",
            got=str(len(points)),
            allowed="1",
        )
    return forecast(points[0].point, points[0].axes, exact=exact).run


@seldom_collected()
def forecast(
    point: Point,
    axes: Mapping[str, Any] | None = None,
    *,
    exact: bool = False,
    tell: OnProgress = lambda share: None,
    workloads: Workloads | None = None,
    detail: bool = True,
    numba_from_messages: int | None = None,
) -> Forecast:
    """Simulate one point of a scenario, with all its replicates; a sweep's points share their `workloads`.

    Without `detail` a run has no rows per span, layer, rank, iteration or gradient, as `Run.to_dict` leaves them out.
    From `numba_from_messages` on, messages are simulated by compiled kernels (see `Network`).
    """
    jobs, setups = point.each_job(), setups_of(point, workloads, detail, numba_from_messages)
    setup = setups[0]
    warnings = _all(each.memory_warnings() for each in setups)
    outcomes: list[Outcome] = []
    for number in range(point.replicates):

        def tell_replicate(share: float, number: int = number) -> None:
            tell((number + share) / point.replicates)

        is_known = number and not exact and all(_plays_alike(each, number) for each in setups)
        if is_known:
            outcomes.append(outcomes[0])
        elif len(jobs) == 1:
            outcomes.append(play(setup, number, exact, tell_replicate))
        else:
            outcomes.append(play_together(jobs, setups, number, exact, tell_replicate))
    outcomes, failure_times = with_failures(setup, outcomes)
    run = replace(run_of(setup, axes or {}, outcomes, detail), failures=failure_times)
    shortcuts = dict.fromkeys(shortcut for outcome in outcomes for shortcut in outcome.shortcuts)
    used = [links.kind for links in run.link_classes if links.num_used]
    assumptions = _all([told_of_jobs(point), *(each.assumptions(used) for each in setups)])
    return Forecast(
        run, assumptions, (*warnings, *_warnings(setup, run), *_missed_spells(setup, outcomes)), tuple(shortcuts)
    )


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return every sentence once."""
    return tuple(dict.fromkeys(sentence for group in groups for sentence in group))


def _plays_alike(setup: Setup, replicate: int) -> bool:
    """Return whether a replicate's iterations cannot differ from the first one's: only failures may be random."""
    point = setup.point
    is_steady = point.strategy.is_periodic and all(each.kind == "constant" for each in point.stragglers)
    is_certain = is_steady and (point.input is None or point.input.cv == 0)
    return is_certain and np.array_equal(setup.gpus(0), setup.gpus(replicate))


def _warnings(setup: Setup, run: Run) -> tuple[str, ...]:
    """Say what the scenario asks for and what changed nothing."""
    strategy, warnings = setup.point.strategy, []
    if run.interval is not None and run.interval.iteration_s[0] == run.interval.iteration_s[1]:
        warnings.append("all replicates are the same: nothing in this scenario is random")
    if run.num_gpus > 1:
        unused = sorted(_network_kinds(setup) - {links.kind for links in run.link_classes if links.num_used})
        if unused and setup.topology.num_hosts > 1:
            warnings.append(f"no message left a host by: {', '.join(unused)}; changing it changes nothing")
        is_asked = bool({"overlap", "buckets"} & strategy.model_fields_set)
        if is_asked and strategy.overlaps_backward and len(run.buckets) == 1:
            warnings.append("all gradients travel in one bucket, so overlap has nothing to hide communication behind")
    servers = getattr(strategy, "servers", None)
    if isinstance(servers, Servers) and servers.pull == "together":
        is_at_one = servers.num == 1 or servers.whole not in (False, "hashed")
        if is_at_one and len(run.buckets) == 1:
            warnings.append("strategy.servers.pull changes nothing: one server hands out the only bucket")
    if setup.point.is_plain and run.adapters is not None and run.adapters[0] < run.adapters[1]:
        used, there = run.adapters
        warnings.append(
            f"messages leave a host by {used} of its {there} network adapters; a library that uses all of them, as "
            "NCCL does with several rings at once (transport nccl), is faster than this forecast"
        )
    told = without_effect(setup.point, setup.reference.model.layers)
    return (*warnings, *strategy.warnings(), *told, *notes_of(setup.point, run))


def _missed_spells(setup: Setup, outcomes: list[Outcome]) -> list[str]:
    """Say which spells at given times begin when nothing is measured any more, in any replicate."""
    end_s, told = max(outcome.measured_s for outcome in outcomes), []
    for number, spec in enumerate(setup.point.stragglers):
        given: list[float] = spec.at or [] if isinstance(spec, Spells) else []
        missed = [time_s for time_s in given if time_s >= end_s]
        if missed:
            told.append(
                f"stragglers.{number}.at: what is measured lasts {format_duration(end_s)}, so that {spec.kind} at "
                f"{', '.join(map(format_duration, missed))} change nothing; more num_iterations would reach them"
            )
    return told


def _network_kinds(setup: Setup) -> set[str]:
    """Return the kinds of the links that are not inside a host."""
    links, hosts = setup.topology.links, setup.topology.node_hosts
    names, kinds = setup.topology.link_kinds
    outside = (hosts[links.src] != hosts[links.dst]) | (hosts[links.src] < 0)
    return {names[kind] for kind in np.unique(kinds[outside]).tolist()}
