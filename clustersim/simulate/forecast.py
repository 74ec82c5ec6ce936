"""From a point to a `Run`: play every replicate and work out the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.results import (
    Cycles,
    Interval,
    Published,
    Run,
    Spans,
    breakdown,
    busiest_links,
    confidence_interval,
    iteration_spans,
    link_classes,
    mean_jobs,
    staleness_summary,
    stretch_spans,
)
from clustersim.scenario import Point, Scenario, load_scenario
from clustersim.simulate.jobs import play_together, setups_of, told_of_jobs
from clustersim.simulate.long_run import with_failures
from clustersim.simulate.memory_time import memory_lines
from clustersim.simulate.outcome import Outcome, mean_cycle, mean_parts
from clustersim.simulate.own_updates import facts_of
from clustersim.simulate.play import Tell, play
from clustersim.simulate.price import dollars, joules
from clustersim.simulate.setup import Setup, Workloads
from clustersim.simulate.without_effect import without_effect
from clustersim.stragglers import Spells
from clustersim.units import format_duration

_DETAILED_RANKS = 16
_LEVEL = 0.95


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


def forecast(
    point: Point,
    axes: Mapping[str, Any] | None = None,
    *,
    exact: bool = False,
    tell: Tell = lambda share: None,
    workloads: Workloads | None = None,
) -> Forecast:
    """Simulate one point of a scenario, with all its replicates; a sweep's points share their `workloads`."""
    jobs, setups = point.each_job(), setups_of(point, workloads)
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
    run = replace(_run(setup, axes or {}, outcomes), failures=failure_times)
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
    certain = setup.point.strategy.is_periodic and all(each.kind == "constant" for each in setup.point.stragglers)
    return certain and np.array_equal(setup.gpus(0), setup.gpus(replicate))


def _run(setup: Setup, axes: Mapping[str, Any], outcomes: list[Outcome]) -> Run:
    point, work, first = setup.point, setup.reference, outcomes[0]
    iteration_s = mean_cycle(outcomes, [outcome.iteration_s for outcome in outcomes])
    samples_per_s = point.global_batch * _applied_share(outcomes) / iteration_s
    memories = [setup.memory_bytes(kind) for kind in setup.kinds_in_use]
    kinds = setup.kinds(setup.gpus(0))
    fullest = max(memories, key=lambda parts: sum(parts.values()))
    return Run(
        axes=dict(axes),
        num_gpus=point.num_gpus,
        batch_per_gpu=point.per_gpu_batch,
        iteration_s=iteration_s,
        update_s=float(np.mean([outcome.update_s for outcome in outcomes])),
        samples_per_s=samples_per_s,
        efficiency=samples_per_s / (point.num_gpus * setup.one_gpu_samples_per_s),
        speedup=_speedup(setup, samples_per_s),
        speedup_basis=_basis(setup),
        time_to_train_s=_time_to_train_s(point, samples_per_s),
        breakdown_s=breakdown(mean_parts(outcomes), iteration_s),
        interval=_interval(setup, outcomes),
        staleness=staleness_summary(np.concatenate([outcome.staleness for outcome in outcomes])),
        memory_bytes=sum(fullest.values()),
        memory_parts=fullest,
        provenance=work.provenance(),
        published=tuple(
            Published(figure.num_gpus, figure.metric, figure.value, figure.source, figure.note or "")
            for figure in point.published
            if figure.num_gpus == point.num_gpus
        ),
        iterations_s=first.iterations_s(),
        worker_breakdown_s=first.worker_parts(),
        jobs=mean_jobs([outcome.jobs for outcome in outcomes]),
        gradients=_gradients(outcomes),
        window_s=sum(outcome.window_s for outcome in outcomes),
        adapters=_adapters(setup, first),
        facts={**point.strategy.facts(point.num_gpus), **facts_of(setup.laid_out)},
        worker_staleness=first.worker_staleness(),
        updates=first.updates,
        more_updates=tuple(outcome.updates for outcome in outcomes[1:]),
        cycles=Cycles.of(first.times, first.weights > 0),
        layers=_layers(setup),
        buckets=tuple(
            (bucket.name, bucket.num_bytes, algorithm)
            for bucket, algorithm in zip(setup.first_plan.buckets, first.algorithms, strict=True)
        ),
        link_classes=link_classes(
            *setup.topology.link_kinds,
            setup.topology.links.bytes_per_s,
            first.link_bytes,
            first.iteration_s,
        ),
        links=busiest_links(
            setup.topology.describe_link,
            setup.topology.links.bytes_per_s,
            first.link_bytes,
            first.iteration_s,
        ),
        rank_names=tuple(str(setup.topology.node_names[node]) for node in setup.topology.gpus[first.gpus]),
        spans=_spans(setup, first),
        iteration_dollars=dollars(kinds, iteration_s),
        iteration_joules=joules(kinds, iteration_s),
        gpu_memory_bytes=min(load_gpu(kind).memory_bytes for kind in setup.kinds_in_use),
        memory_lines=() if setup.laid_out is None or first.spans is None else memory_lines(setup.laid_out, first.spans),
    )


def _applied_share(outcomes: list[Outcome]) -> float:
    """Return which share of the gradients came in time to be applied: 1 where none is ever dropped."""
    applied, dropped = _gradients(outcomes).values()
    return applied / (applied + dropped)


def _gradients(outcomes: list[Outcome]) -> dict[str, int]:
    """Return how many gradients were applied, and how many dropped, in all replicates."""
    applied, dropped = (sum(counts) for counts in zip(*(outcome.gradients for outcome in outcomes), strict=True))
    return {"applied": applied, "dropped": dropped}


def _layers(setup: Setup) -> tuple[tuple[str, str, float, float, str, float], ...]:
    """Return what each layer takes in an iteration on a GPU that has a whole copy, and the bytes of its gradient."""
    size, times = setup.reference.gradient_bytes_per_parameter, setup.point.parallelism.micro_batches
    return tuple(
        (
            time.layer.name,
            time.layer.op,
            times * time.forward_s,
            times * time.backward_s,
            time.provenance,
            time.layer.num_parameters * size,
        )
        for time in setup.reference.layers
    )


def _time_to_train_s(point: Point, samples_per_s: float) -> float | None:
    if point.epochs is None or point.dataset_size is None:
        return None
    return point.epochs * point.dataset_size / samples_per_s


def _speedup(setup: Setup, samples_per_s: float) -> float | None:
    """Return hours over hours where the baseline gives hours, else samples per second over the baseline's."""
    baseline = setup.point.baseline
    if baseline is not None and baseline.hours is not None:
        total_s = _time_to_train_s(setup.point, samples_per_s)
        return None if total_s is None else baseline.hours * 3600 / total_s
    return samples_per_s / (
        baseline.samples_per_s if baseline and baseline.samples_per_s else setup.one_gpu_samples_per_s
    )


def _basis(setup: Setup) -> str:
    baseline = setup.point.baseline
    if baseline is None:
        gpu = load_gpu(setup.kinds_in_use[0]).title
        return f"samples per second of one {gpu} at a batch of {setup.one_gpu_batch}, forecast"
    if baseline.hours is not None:
        return f"{baseline.source} ({baseline.hours:g} h)"
    return f"{baseline.source} ({baseline.samples_per_s:g} samples per second)"


def _interval(setup: Setup, outcomes: list[Outcome]) -> Interval | None:
    """Return the confidence interval over replicates, of the logarithm, since a time is never negative."""
    logarithms = confidence_interval([math.log(outcome.iteration_s) for outcome in outcomes], _LEVEL)
    if logarithms is None:
        return None
    low_s, high_s = (math.exp(end) for end in logarithms)
    batch = setup.point.global_batch * _applied_share(outcomes)
    slow, fast = batch / high_s, batch / low_s
    ends = _speedup(setup, slow), _speedup(setup, fast)
    speedup = None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
    return Interval(_LEVEL, (low_s, high_s), (slow, fast), speedup)


def _spans(setup: Setup, outcome: Outcome) -> Spans:
    """Return the spans of the last iteration, or of a stretch as long; layer by layer for a few ranks."""
    layers = [(time.layer.name, time.backward_s) for time in reversed(setup.reference.layers) if time.backward_s > 0]
    buckets = [bucket.name for bucket in setup.plan(setup.reference).buckets]
    if outcome.spans is not None:
        return outcome.spans
    detailed = set(range(min(_DETAILED_RANKS, setup.point.num_gpus)))
    if not outcome.in_step:
        return stretch_spans(outcome.times, outcome.weights > 0, outcome.iteration_s, layers, buckets, detailed)
    iteration = outcome.times.end_s.shape[1] - 1
    slowest = int(outcome.times.computed_s[:, iteration].argmax())
    return iteration_spans(outcome.times, iteration, layers, buckets, {*detailed, slowest})


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
    if setup.point.is_plain and run.adapters is not None and run.adapters[0] < run.adapters[1]:
        used, there = run.adapters
        warnings.append(
            f"messages leave a host by {used} of its {there} network adapters; a library that uses all of them, as "
            "NCCL does with several rings at once (transport nccl), is faster than this forecast"
        )
    return (*warnings, *strategy.warnings(), *without_effect(setup.point))


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


def _adapters(setup: Setup, outcome: Outcome) -> tuple[int, int] | None:
    """Return by how many links messages leave a host, and how many it has, at most one a GPU in use; None if none do.

    It is the host that has most of them.
    """
    links, hosts = setup.topology.links, setup.topology.node_hosts
    leaves = (hosts[links.src] >= 0) & (hosts[links.src] != hosts[links.dst])
    host, num_hosts = hosts[links.src[leaves]], int(hosts.max()) + 1
    used = np.bincount(host, outcome.link_bytes[leaves] > 0, num_hosts)
    gpus = np.bincount(hosts[setup.topology.gpus[outcome.gpus]], minlength=num_hosts)
    there = np.where(used > 0, np.minimum(np.bincount(host, minlength=num_hosts), gpus), 0)
    most = int(there.argmax())
    return (int(used[most]), int(there[most])) if there[most] else None


def _network_kinds(setup: Setup) -> set[str]:
    """Return the kinds of the links that are not inside a host."""
    links, hosts = setup.topology.links, setup.topology.node_hosts
    names, kinds = setup.topology.link_kinds
    outside = (hosts[links.src] != hosts[links.dst]) | (hosts[links.src] < 0)
    return {names[kind] for kind in np.unique(kinds[outside]).tolist()}
