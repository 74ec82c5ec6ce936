"""Training in which all ranks march in step, and what it consists of: compute alone, communication alone."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from real_run.clock import Mark, clock_of
from real_run.diary import TraceRecorder, as_columns, iteration_seconds, kind_seconds
from real_run.exchanges import AfterBackward, Exchange, Overlapped, SingleWorker
from real_run.layer_split import split_layers
from real_run.ranks import Ranks
from real_run.training import Job, Trainee

Make = Callable[[Ranks, Trainee, TraceRecorder], Exchange]


def compute_only(ranks: Ranks, job: Job) -> dict[str, Any]:
    """Train without sending anything; return seconds of forward, backward and update, and how layers share them."""
    trainee, exchange, diary = _trained(ranks, job, SingleWorker)
    found = _gathered(ranks, diary)
    if found:
        found |= {f"{kind}_s": kind_seconds(found["rows"], kind) for kind in ("forward", "backward", "update")}
    layers = split_layers(trainee, exchange.module)
    return _finished(found, {"buckets": exchange.buckets, "layers": layers})


def data_parallel(ranks: Ranks, job: Job, overlap: bool) -> dict[str, Any]:
    """Train with all-reduced gradients: by DDP beside backward, or after it; return every rank's timeline."""
    make: Make = Overlapped if overlap else AfterBackward
    _, exchange, diary = _trained(ranks, job, make)
    return _finished(_gathered(ranks, diary), {"buckets": exchange.buckets})


def communication_only(ranks: Ranks, job: Job, buckets: list[int]) -> dict[str, Any]:
    """All-reduce a model's buckets one after the other, without any compute."""
    clock = clock_of(ranks.device.torch)
    flat = [torch.zeros(size // 4, device=ranks.device.torch) for size in buckets]
    diary = TraceRecorder(ranks, clock)
    ranks.meet()
    for iteration in range(-job.num_warm_up, job.num_iterations):
        begin = clock.mark()
        for number, each in enumerate(flat):
            dist.all_reduce(each)
            end = clock.mark()
            diary.note("communication", iteration, begin, end, f"bucket {number}")
            begin = end
    return _finished(_gathered(ranks, diary), {"buckets": buckets})


def _trained(ranks: Ranks, job: Job, make: Make) -> tuple[Trainee, Exchange, TraceRecorder]:
    trainee = Trainee(ranks, job)
    diary = TraceRecorder(ranks, trainee.clock)
    exchange = make(ranks, trainee, diary)
    ranks.meet()
    begin = trainee.clock.mark()
    for iteration in range(-job.num_warm_up, job.num_iterations):
        begin = iterate(trainee, exchange, diary, iteration, begin, job.factor(ranks.rank))
    trainee.clock.settle()
    return trainee, exchange, diary


def iterate(
    trainee: Trainee, exchange: Exchange, diary: TraceRecorder, iteration: int, begin: Mark, factor: float
) -> Mark:
    """Go once forward, backward, exchange and update from `begin` on; return when it has ended.

    A straggler sleeps after each part. With overlap the sleep after backward comes when buckets have long set off, so
    that stragglers are measured without.
    """
    clock = trainee.clock
    exchange.begin(iteration)
    loss = trainee.forward(exchange.module)
    clock.stretch(begin, clock.mark(), factor)
    forward = clock.mark()
    trainee.backward(loss)
    clock.stretch(forward, clock.mark(), factor)
    exchange.after_backward()
    exchanged = clock.mark()
    computed = exchanged if exchange.ready is None else exchange.ready
    trainee.update()
    clock.stretch(exchanged, clock.mark(), factor)
    end = clock.mark()
    diary.note("forward", iteration, begin, forward)
    diary.note("backward", iteration, forward, computed)
    if exchange.ready is not None:
        diary.note("exposed", iteration, computed, exchanged)
    diary.note("update", iteration, exchanged, end)
    return end


def _gathered(ranks: Ranks, diary: TraceRecorder) -> dict[str, Any]:
    """Return the rows of all ranks on rank 0, with what iterations took; nothing on the others."""
    rows = [row for own in ranks.gather(diary.rows()) for row in own]
    if not rows:
        return {}
    seconds = iteration_seconds(rows)
    return {"rows": rows, "iteration_s": median(seconds), "iterations_s": seconds}


def _finished(found: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return what a phase writes: figures first, spans last."""
    if not found:
        return {}
    rows = found.pop("rows")
    return {**found, **more, "spans": as_columns(rows)}
