"""A realistic sweep without simulating: GoogLeNet on a torus, one row of layers after another."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from clustersim.results import Interval, LinkClass, LinkLoad, PublishedFigure, Run, Spans, Sweep

LAYER_SECONDS = 0.7
"""Compute seconds of one iteration of 32 samples on one GPU."""

TEXT = """# How fast does GoogLeNet train on Titan?  <script>alert("no")</script>
name: synthetic-googlenet
model: googlenet
num_gpus: [1, 32, 128]
topology: titan
"""


def make_layers(num_layers: int = 57, share: float = 1.0) -> tuple[tuple[str, str, float, float, str, float], ...]:
    """Return rows of layers whose seconds sum to `share` of an iteration's compute."""
    weights = np.random.default_rng(3).pareto(1.5, num_layers) + 0.2
    seconds = weights / weights.sum() * LAYER_SECONDS * share
    origins = ("published", "published", "estimated")
    return tuple(
        (
            f"inception_{number // 6}/conv{number % 6}",
            "convolution",
            second / 3,
            2 * second / 3,
            origins[number % 3],
            9e5,
        )
        for number, second in enumerate(seconds)
    )


def make_spans(layers, slowdown, num_buckets: int, bucket_s: float, num_iterations: int = 2) -> tuple[Spans, float]:
    """Return spans of synchronous training and the iteration; rank r computes `slowdown[r]` times as long."""
    spans = Spans()
    busy = [factor * sum(row[2] + row[3] for row in layers) for factor in slowdown]
    slowest = int(np.argmax(busy))
    tail = 0.6 * (num_buckets - 2) * bucket_s if len(slowdown) > 1 else 0.0
    update = 0.002
    length = max(busy) + tail + update
    for iteration in range(num_iterations):
        for rank, factor in enumerate(slowdown):
            time = iteration * length
            for name, _, forward_s, _, _, _ in layers:
                spans.add("forward", rank, iteration, time, time + factor * forward_s, name)
                time += factor * forward_s
            for name, _, _, backward_s, _, _ in layers[::-1]:
                spans.add("backward", rank, iteration, time, time + factor * backward_s, name)
                time += factor * backward_s
            done = iteration * length + max(busy)
            if len(slowdown) > 1:
                cause = f"for rank {slowest}: slow kernels" if rank != slowest else ""
                if done > time:
                    spans.add("waiting", rank, iteration, time, done, cause=cause)
                spans.add("exposed", rank, iteration, done, done + tail, f"bucket {num_buckets - 1}")
                for bucket in range(num_buckets):
                    start = done + tail - 0.6 * (num_buckets - bucket) * bucket_s
                    spans.add("communication", rank, iteration, start, start + 0.6 * bucket_s, f"bucket {bucket}")
            spans.add("update", rank, iteration, done + tail, done + tail + update, "sgd")
    return spans, length


def make_links(num_gpus: int, load: float) -> tuple[LinkLoad, ...]:
    """Return the busiest links of a tree on a torus: the root's host, and its router's neighbours."""
    rows = []
    for number, host in enumerate(sorted({0, 1, 2, 5, 8, 17} & set(range(num_gpus)))):
        used = load * 0.8**number
        for src, dst, kind, share in (
            ("gpu0", "socket0", "pcie-2-x16", 0.7), ("socket0", "gpu0", "pcie-2-x16", 0.7),
            ("socket0", "memory0", "memory", 0.2), ("memory0", "memory0", "cpu-add", 0.3),
            ("memory0", "nic0", "pcie-2-x16", 0.6),
        ):  # fmt: skip
            a, b = f"host{host}/{src}", f"host{host}/{dst}"
            rows.append(LinkLoad(f"{a}->{b}", kind, a, b, 1e8 * used * share, used * share))
        router = f"router({host},0,0)"
        rows.append(
            LinkLoad(f"host{host}/nic0->{router}", "gemini-nic", f"host{host}/nic0", router, 1e8 * used, 0.8 * used)
        )
        if number:
            rows.append(LinkLoad(f"{router}->router(0,0,0)", "gemini-x", router, "router(0,0,0)", 1e8 * used, used))
            rows.append(
                LinkLoad(f"router(0,0,0)->{router}", "gemini-x", "router(0,0,0)", router, 9e7 * used, 0.9 * used)
            )
    return tuple(sorted(rows, key=lambda row: -row.utilisation))


def make_classes(num_gpus: int, load: float) -> tuple[LinkClass, ...]:
    if num_gpus == 1:
        return (LinkClass("pcie-2-x16", 38400, 0, 0.0, 0.0, 6e9), LinkClass("gemini-x", 19200, 0, 0.0, 0.0, 9.4e9))
    return (
        LinkClass("pcie-2-x16", 38400, 4 * num_gpus, 4e8 * num_gpus, 0.7 * load, 6e9),
        LinkClass("gemini-x", 19200, 2 * num_gpus, 2e8 * num_gpus, load, 9.4e9),
        LinkClass("gemini-y", 19200, num_gpus, 1e8 * num_gpus, 0.9 * load, 4.7e9),
        LinkClass("gemini-z", 19200, 0, 0.0, 0.0, 9.4e9),
    )


def make_run(
    num_gpus: int, published: tuple[PublishedFigure, ...] = (), interval: float = 0.0, axes=None, seed: int = 0
) -> Run:
    """Return a run of strong scaling: batch 1024 over `num_gpus`, so compute shrinks and communication does not."""
    per_gpu = 1024 / num_gpus
    layers = make_layers(share=per_gpu / 32)
    slowdown = 1.0 + 0.06 * np.random.default_rng(seed).random(num_gpus) if num_gpus > 1 else np.ones(1)
    if num_gpus > 20:
        slowdown[17] = 1.11
    spans, iteration_s = make_spans(layers, slowdown, 5, 0.012 * np.log2(num_gpus) + 0.02)
    busy = slowdown * sum(row[2] + row[3] for row in layers)
    tail = iteration_s - busy.max() - 0.002
    workers = tuple(
        {"compute": float(one) + 0.002, "communication_exposed": float(tail), "waiting": float(busy.max() - one)}
        for one in busy
    )
    mean = {part: float(np.mean([row[part] for row in workers])) for part in workers[0]}
    breakdown = {**mean, "input": 0.0, "bubble": 0.0, "recovery": 0.0}
    rate = 1024 / iteration_s
    single = 32 / (LAYER_SECONDS + 0.002 / 32)
    speedup = rate / 45.15
    around = {key: (value * (1 - interval), value * (1 + interval)) for key, value in
              (("iteration_s", iteration_s), ("samples_per_s", rate), ("speedup", speedup))}  # fmt: skip
    load = 0.0 if num_gpus == 1 else min(0.95, 2.2 * tail / iteration_s)
    return Run(
        axes={"num_gpus": num_gpus, **(axes or {})},
        num_gpus=num_gpus,
        batch_per_gpu=per_gpu,
        iteration_s=iteration_s,
        update_s=iteration_s,
        samples_per_s=rate,
        efficiency=rate / (num_gpus * single),
        speedup=speedup,
        speedup_basis="one K20 running Caffe, batch 32",
        time_to_train_s=72 * 1_281_167 / rate,
        breakdown_s=breakdown,
        interval=Interval(level=0.95, **around) if interval else None,
        staleness={"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0, "histogram": [[0, 10 * num_gpus]]},
        memory_bytes=3.1e9,
        memory_parts={"activations": 2.7e9, "weights": 5.35e7, "gradients": 5.35e7, "workspace": 2.93e8},
        provenance={"measured": 0.0, "published": 0.64, "estimated": 0.36},
        published=published,
        iterations_s=(iteration_s, iteration_s),
        worker_breakdown_s=workers,
        layers=layers,
        buckets=tuple((f"bucket {number}", 1.07e7, "tree") for number in range(5)),
        link_classes=make_classes(num_gpus, load),
        links=make_links(num_gpus, load) if num_gpus > 1 else (),
        rank_names=tuple(f"host{rank}/gpu0" for rank in range(num_gpus)),
        spans=spans,
    )  # fmt: skip


@cache
def make_sweep(sizes=(1, 32, 128), interval: float = 0.04) -> Sweep:
    """Return a sweep over sizes with published points at 32 and 128 GPUs."""
    source = "FireCaffe, CVPR 2016, Table 3"
    points = {
        32: (
            PublishedFigure(32, "hours", 23.4, source),
            PublishedFigure(32, "speedup", 20.0, source, "as the paper calls it"),
        ),
        128: (PublishedFigure(128, "hours", 10.5, source), PublishedFigure(128, "speedup", 47.0, source)),
    }
    runs = tuple(make_run(size, points.get(size, ()), interval if size > 1 else 0.0, seed=size) for size in sizes)
    return Sweep(
        version="0.1.0",
        scenario={"name": "synthetic-googlenet", "epochs": 72, "num_gpus": list(sizes)},
        seed=1,
        runs=runs,
        assumptions=("gemini-nic latency 1.0 us: assumed, no published figure for one message size",),
        warnings=("no flow used any gemini-z link",),
        shortcuts=("identical iterations were multiplied, not repeated",),
        scenario_text=TEXT,
    )


@cache
def make_comparison() -> Sweep:
    """Return a sweep over sizes and two strategies, one of which is slower at every size."""
    runs = []
    for kind, slower in (("all-reduce", 1.0), ("server", 2.4)):
        for size in (8, 32, 128):
            run = make_run(size, axes={"strategy.kind": kind}, seed=size)
            extra = (slower - 1.0) * run.breakdown_s["communication_exposed"]
            parts = {**run.breakdown_s, "communication_exposed": run.breakdown_s["communication_exposed"] + extra}
            factor = (run.iteration_s + extra) / run.iteration_s
            runs.append(
                replace(
                    run,
                    iteration_s=run.iteration_s * factor,
                    update_s=run.update_s * factor,
                    samples_per_s=run.samples_per_s / factor,
                    efficiency=run.efficiency / factor,
                    speedup=None if run.speedup is None else run.speedup / factor,
                    time_to_train_s=None if run.time_to_train_s is None else run.time_to_train_s * factor,
                    breakdown_s=parts,
                )
            )
    return replace(make_sweep((1,)), runs=tuple(runs), warnings=())
