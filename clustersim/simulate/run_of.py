"""Makes a `Run` of the outcomes of a point's replicates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from clustersim.hardware import load_gpu
from clustersim.hardware.price import price_of
from clustersim.kernels.packing import filling, tokens_of
from clustersim.parallelism import ModelLayout
from clustersim.parallelism.memory_over_time import TimedPass, memory_over_time
from clustersim.program.ops import BACKWARD, FORWARD, RECOMPUTE, WEIGHTS
from clustersim.results import (
    Baseline,
    Interval,
    MemoryLine,
    PublishedFigure,
    Run,
    Spans,
    WorkerIterations,
    breakdown,
    busiest_links,
    confidence_interval,
    iteration_spans,
    link_classes,
    mean_jobs,
    staleness_summary,
    window_spans,
)
from clustersim.scenario import Point
from clustersim.simulate.baseline import baseline_of, named_baseline
from clustersim.simulate.features import features_of
from clustersim.simulate.flop_utilisation import flop_utilisation
from clustersim.simulate.outcome import Outcome, mean_over_outcomes, mean_parts
from clustersim.simulate.pipedream_updates import micro_batch_update_facts
from clustersim.simulate.setup import Setup
from clustersim.simulate.tokens import tokens_per_sample

_DETAILED_RANKS = 16
_LEVEL = 0.95
_PHASES = {FORWARD: FORWARD, RECOMPUTE: BACKWARD, BACKWARD: BACKWARD, WEIGHTS: WEIGHTS}
_MICRO_BATCH = ", micro-batch "


def run_of(setup: Setup, axes: Mapping[str, Any], outcomes: list[Outcome], detail: bool, compares: bool) -> Run:
    """Return the run of a point from the outcomes of its replicates; tables with many rows only with `detail`.

    Its baseline is one that can be if it `compares`, else the run itself.
    """
    run = _with_links(_figures(setup, axes, outcomes, compares), setup, outcomes[0])
    run = replace(run, features=features_of(setup, run.rank_names))
    return _with_detail(run, setup, outcomes) if detail else run


def _figures(setup: Setup, axes: Mapping[str, Any], outcomes: list[Outcome], compares: bool) -> Run:
    """Return a run with the figures of all its replicates."""
    point = setup.point
    iteration_s = mean_over_outcomes(outcomes, [outcome.iteration_s for outcome in outcomes])
    samples_per_s = point.global_batch * _applied_share(outcomes) / iteration_s
    baseline = baseline_of(setup, samples_per_s) if compares else named_baseline(setup, "", samples_per_s)
    num_samples = point.num_samples(tokens_per_sample(setup))
    kinds = setup.kinds(setup.gpus(0))
    fullest = max((setup.memory_bytes(kind) for kind in setup.kinds_in_use), key=lambda held: sum(held.values()))
    return Run(
        axes=dict(axes),
        num_gpus=point.num_gpus,
        batch_per_gpu=point.per_gpu_batch,
        iteration_s=iteration_s,
        update_s=float(np.mean([outcome.update_s for outcome in outcomes])),
        samples_per_s=samples_per_s,
        efficiency=samples_per_s / (point.num_gpus * baseline.samples_per_s_per_gpu),
        speedup=_speedup(point, baseline, samples_per_s, num_samples),
        speedup_basis=_basis(point, baseline),
        time_to_train_s=None if num_samples is None else num_samples / samples_per_s,
        breakdown_s=breakdown(mean_parts(outcomes), iteration_s),
        interval=_interval(point, baseline, outcomes, num_samples),
        staleness=staleness_summary(np.concatenate([outcome.staleness for outcome in outcomes])),
        memory_bytes=sum(fullest.values()),
        memory_parts=fullest,
        provenance=setup.reference.provenance(),
        kernels=setup.reference.kernels,
        software=point.software.name,
        transport=point.transport,
        published=tuple(
            PublishedFigure(figure.num_gpus, figure.metric, figure.value, figure.source, figure.note or "")
            for figure in point.published
            if figure.num_gpus == point.num_gpus
        ),
        gradients=_gradients(outcomes),
        window_s=sum(outcome.window_s for outcome in outcomes),
        jobs=mean_jobs([outcome.jobs for outcome in outcomes]),
        facts={
            **point.strategy.facts(setup.num_workers),
            **micro_batch_update_facts(setup.laid_out),
            **_document_facts(setup, samples_per_s),
            **_server_facts(outcomes),
        },
        iteration_dollars=dollars(kinds, iteration_s, point.prices),
        tokens_per_sample=tokens_per_sample(setup),
        baseline=baseline,
        **flop_utilisation(setup, samples_per_s, kinds)._asdict(),
        iteration_joules=joules(kinds, iteration_s),
        gpu_memory_bytes=min(load_gpu(kind).memory_bytes for kind in setup.kinds_in_use),
        layout={} if point.is_plain else {"kind": point.parallelism.kind, **asdict(point.grid)},
    )


def _server_facts(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return how long the busiest server that queues gradients works on each, in seconds, and for which share of time.

    Empty where no server queues gradients.
    """
    if not outcomes[0].server_s:
        return {}
    busy = float(np.mean([outcome.server_busy for outcome in outcomes]))
    return {"server_s_per_gradient": outcomes[0].server_s, "server_busy": busy}


def _document_facts(setup: Setup, samples_per_s: float) -> dict[str, float]:
    """Return the real tokens and the documents that are trained per second, if sequences are packed or padded."""
    packing = setup.point.packing
    if packing is None:
        return {}
    tokens = tokens_of(setup.model)
    filled = filling(packing, tokens)
    return {
        "real_tokens_per_s": samples_per_s * filled.tokens,
        "documents_per_s": samples_per_s * filled.documents,
        "real_token_share": filled.tokens / tokens,
    }


def _with_links(run: Run, setup: Setup, first: Outcome) -> Run:
    """Return a run with its buckets, its links and the bytes that these carried, in the first replicate."""
    topology = setup.topology
    bytes_per_s = topology.links.bytes_per_s
    return replace(
        run,
        adapters=_adapters(setup, first),
        cards=_cards(setup, first),
        link_classes=link_classes(*topology.link_kinds, bytes_per_s, first.link_bytes, first.iteration_s),
        links=busiest_links(topology.describe_link, bytes_per_s, first.link_bytes, first.iteration_s),
        buckets=tuple(
            (bucket.name, bucket.num_bytes, algorithm)
            for bucket, algorithm in zip(setup.first_plan.buckets, first.algorithms, strict=True)
        ),
        rank_names=tuple(str(topology.node_names[node]) for node in topology.gpus[first.gpus]),
    )


def _with_detail(run: Run, setup: Setup, outcomes: list[Outcome]) -> Run:
    """Return a run with the tables by rank, layer, iteration and gradient of the first replicate."""
    first = outcomes[0]
    return replace(
        run,
        iterations_s=first.iterations_s(),
        worker_breakdown_s=first.worker_parts(),
        worker_staleness=first.worker_staleness(),
        updates=first.updates,
        more_updates=tuple(outcome.updates for outcome in outcomes[1:]),
        cycles=WorkerIterations.of(first.times, first.weights > 0),
        layers=_layers(setup),
        spans=_spans(setup, first),
        memory_lines=() if setup.laid_out is None or first.spans is None else memory_lines(setup.laid_out, first.spans),
    )


def _applied_share(outcomes: list[Outcome]) -> float:
    """Return the share of gradients that were applied: 1 if none was dropped."""
    applied, dropped = _gradients(outcomes).values()
    return applied / (applied + dropped)


def _gradients(outcomes: list[Outcome]) -> dict[str, int]:
    """Return how many gradients were applied and dropped in all replicates."""
    applied, dropped = (sum(counts) for counts in zip(*(outcome.gradients for outcome in outcomes), strict=True))
    return {"applied": applied, "dropped": dropped}


def _layers(setup: Setup) -> tuple[tuple[str, str, float, float, str, float], ...]:
    """Return the times of each layer in an iteration on a GPU with the whole model, and the bytes of its gradient."""
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


def _speedup(point: Point, baseline: Baseline, samples_per_s: float, num_samples: float | None) -> float | None:
    """Return the ratio of hours if the scenario's baseline gives hours, else that of samples per second."""
    given = point.baseline
    if given is not None and given.hours is not None:
        return None if num_samples is None else given.hours * 3600 * samples_per_s / num_samples
    return samples_per_s / (baseline.samples_per_s if given is None or not given.samples_per_s else given.samples_per_s)


def _basis(point: Point, baseline: Baseline) -> str:
    """Return what a speedup is over: the scenario's baseline, else that of the efficiency."""
    given = point.baseline
    if given is None:
        return f"samples per second of {baseline.text}, forecast"
    if given.hours is not None:
        return f"{given.source} ({given.hours:g} h)"
    return f"{given.source} ({given.samples_per_s:g} samples per second)"


def _interval(point: Point, baseline: Baseline, outcomes: list[Outcome], num_samples: float | None) -> Interval | None:
    """Return the confidence interval over replicates; it is computed on logarithms, since times are positive."""
    logarithms = confidence_interval([math.log(outcome.iteration_s) for outcome in outcomes], _LEVEL)
    if logarithms is None:
        return None
    low_s, high_s = (math.exp(end) for end in logarithms)
    batch = point.global_batch * _applied_share(outcomes)
    slow, fast = batch / high_s, batch / low_s
    low, high = (_speedup(point, baseline, rate, num_samples) for rate in (slow, fast))
    speedup = None if low is None or high is None else (low, high)
    return Interval(_LEVEL, (low_s, high_s), (slow, fast), speedup)


def _spans(setup: Setup, outcome: Outcome) -> Spans:
    """Return the spans of the last iteration, or of an interval as long; layer by layer for a few ranks."""
    layers = [(time.layer.name, time.backward_s) for time in reversed(setup.reference.layers) if time.backward_s > 0]
    buckets = [bucket.name for bucket in setup.plan(setup.reference).buckets]
    if outcome.spans is not None:
        return outcome.spans
    detailed = set(range(min(_DETAILED_RANKS, setup.point.num_gpus)))
    if not outcome.in_step:
        return window_spans(outcome.times, outcome.weights > 0, outcome.iteration_s, layers, buckets, detailed)
    iteration = outcome.times.end_s.shape[1] - 1
    slowest = int(outcome.times.computed_s[:, iteration].argmax())
    return iteration_spans(outcome.times, iteration, layers, buckets, {*detailed, slowest})


def _cards(setup: Setup, outcome: Outcome) -> dict[str, float]:
    """Return the number and the rate in bytes/s of the links that leave the host of the first rank.

    Empty if all ranks are in one host, or one NVLink domain.
    """
    topology, links = setup.topology, setup.topology.links
    hosts, domains = topology.node_hosts, topology.node_domains
    if len(np.unique(topology.gpu_domains[outcome.gpus])) < 2:
        return {}
    first = topology.gpu_hosts[outcome.gpus].min()
    out = (hosts[links.src] == first) & (domains[links.src] != domains[links.dst])
    return {"per_host": int(out.sum()), "bytes_per_s": float(links.bytes_per_s[out].max())}


def _adapters(setup: Setup, outcome: Outcome) -> tuple[int, int] | None:
    """Return how many links carry messages out of a host, and how many it has, at most one per GPU in use.

    It is the host that has most of them; None if no message leaves a host.
    """
    links, hosts, domains = setup.topology.links, setup.topology.node_hosts, setup.topology.node_domains
    leaves = (hosts[links.src] >= 0) & (domains[links.src] != domains[links.dst])
    host, num_hosts = hosts[links.src[leaves]], int(hosts.max()) + 1
    used = np.bincount(host, outcome.link_bytes[leaves] > 0, num_hosts)
    gpus = np.bincount(hosts[setup.topology.gpus[outcome.gpus]], minlength=num_hosts)
    num_links = np.where(used > 0, np.minimum(np.bincount(host, minlength=num_hosts), gpus), 0)
    most = int(num_links.argmax())
    return (int(used[most]), int(num_links[most])) if num_links[most] else None


def dollars(kinds: Sequence[str], seconds: float, prices: Mapping[str, float]) -> float | None:
    """Return what GPUs of these kinds cost for some seconds, idle or not; None if one has no price.

    >>> dollars(["p100"], 1.0, {}) is None
    True
    >>> dollars(["p100", "p100"], 1800.0, {"p100": 1.5})
    1.5
    """
    found = [price_of(kind, load_gpu(kind).dollars_per_hour, prices) for kind in kinds]
    known = [price for price in found if price is not None]
    return sum(known) * seconds / 3600 if len(known) == len(found) else None


def joules(kinds: Sequence[str], seconds: float) -> float | None:
    """Return the energy of GPUs of these kinds at their maximum power for some seconds; None if a sheet has no power.

    It is an upper estimate for the GPUs. Hosts and switches are left out.
    """
    powers = [load_gpu(kind).power_w for kind in kinds]
    known = [power for power in powers if power is not None]
    return sum(known) * seconds if len(known) == len(powers) else None


def memory_lines(laid_out: ModelLayout, spans: Spans) -> tuple[MemoryLine, ...]:
    """Return the memory over time of the first rank of each stage; none for a stage without complete passes."""
    each, lines = laid_out.grid.num_ranks // laid_out.grid.pipeline, []
    passes = _passes(spans)
    for stage, held in enumerate(laid_out.held):
        steps = memory_over_time(held, passes.get(stage * each, []))
        if steps is not None:
            times_s, num_bytes = zip(*steps, strict=True)
            lines.append(MemoryLine(stage, stage * each, times_s, num_bytes))
    return tuple(lines)


def _passes(spans: Spans) -> dict[int, list[TimedPass]]:
    """Return the passes of each rank; consecutive compute spans of one phase and micro-batch are one pass."""
    passes: dict[int, list[TimedPass]] = {}
    for kind, rank, _, start_s, end_s, name, _ in spans.rows():
        _, is_pass, number = name.rpartition(_MICRO_BATCH)
        if kind not in _PHASES or not is_pass:
            continue
        own, phase = passes.setdefault(rank, []), _PHASES[kind]
        if own and own[-1][:2] == (phase, int(number)):
            own[-1] = own[-1]._replace(end_s=end_s)
        else:
            own.append(TimedPass(phase, int(number), start_s, end_s))
    return passes
