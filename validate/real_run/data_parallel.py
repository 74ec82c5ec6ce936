"""Synchronous training, and its parts: only compute, and only communication."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from real_run.clock import Mark, clock_of
from real_run.exchanges import AfterBackward, Exchange, Overlapped, SingleWorker
from real_run.layer_times import split_layers
from real_run.ranks import Ranks
from real_run.trace_recorder import TraceRecorder, as_columns, iteration_seconds, kind_seconds
from real_run.training import Job, LocalTraining

Make = Callable[[Ranks, LocalTraining, TraceRecorder], Exchange]


def compute_only(ranks: Ranks, job: Job) -> dict[str, Any]:
    """Train without communication; return the seconds of forward, backward and update, and of each layer."""
    training, exchange, recorder = _trained(ranks, job, SingleWorker)
    found = _gathered(ranks, recorder)
    if found:
        found |= {f"{kind}_s": kind_seconds(found["rows"], kind) for kind in ("forward", "backward", "update")}
    layers = split_layers(training, exchange.module)
    return _finished(found, {"buckets": exchange.buckets, "layers": layers})


def data_parallel(ranks: Ranks, job: Job, overlap: bool) -> dict[str, Any]:
    """Train with all-reduces of gradients, overlapped with backward by DDP or after it; return all spans."""
    make: Make = Overlapped if overlap else AfterBackward
    _, exchange, recorder = _trained(ranks, job, make)
    return _finished(_gathered(ranks, recorder), {"buckets": exchange.buckets})


def communication_only(ranks: Ranks, job: Job, buckets: list[int]) -> dict[str, Any]:
    """All-reduce a model's buckets one after the other, without compute."""
    clock = clock_of(ranks.device.torch)
    flat = [torch.zeros(size // 4, device=ranks.device.torch) for size in buckets]
    recorder = TraceRecorder(ranks, clock)
    ranks.barrier()
    for iteration in range(-job.num_warm_up, job.num_iterations):
        begin = clock.mark()
        for number, each in enumerate(flat):
            dist.all_reduce(each)
            end = clock.mark()
            recorder.note("communication", iteration, begin, end, f"bucket {number}")
            begin = end
    return _finished(_gathered(ranks, recorder), {"buckets": buckets})


def _trained(ranks: Ranks, job: Job, make: Make) -> tuple[LocalTraining, Exchange, TraceRecorder]:
    training = LocalTraining(ranks, job)
    recorder = TraceRecorder(ranks, training.clock)
    exchange = make(ranks, training, recorder)
    ranks.barrier()
    begin = training.clock.mark()
    for iteration in range(-job.num_warm_up, job.num_iterations):
        begin = iterate(training, exchange, recorder, iteration, begin, job.factor(ranks.rank))
    training.clock.settle()
    return training, exchange, recorder


def iterate(
    training: LocalTraining, exchange: Exchange, recorder: TraceRecorder, iteration: int, begin: Mark, factor: float
) -> Mark:
    """Run one iteration from the mark `begin`: forward, backward, exchange, update; return the mark of its end.

    A straggler sleeps after each part. With overlap, buckets would already be sent before the sleep after backward, so
    stragglers are measured without overlap.
    """
    clock = training.clock
    exchange.begin(iteration)
    loss = training.forward(exchange.module)
    clock.stretch(begin, clock.mark(), factor)
    forward = clock.mark()
    training.backward(loss)
    clock.stretch(forward, clock.mark(), factor)
    exchange.after_backward()
    exchanged = clock.mark()
    computed = exchanged if exchange.ready is None else exchange.ready
    training.update()
    clock.stretch(exchanged, clock.mark(), factor)
    end = clock.mark()
    recorder.note("forward", iteration, begin, forward)
    recorder.note("backward", iteration, forward, computed)
    if exchange.ready is not None:
        recorder.note("exposed", iteration, computed, exchanged)
    recorder.note("update", iteration, exchanged, end)
    return end


def _gathered(ranks: Ranks, recorder: TraceRecorder) -> dict[str, Any]:
    """Return the rows of all ranks and the times of iterations on rank 0; an empty dict on the others."""
    rows = [row for own in ranks.gather(recorder.rows()) for row in own]
    if not rows:
        return {}
    seconds = iteration_seconds(rows)
    return {"rows": rows, "iteration_s": median(seconds), "iterations_s": seconds}


def _finished(found: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a phase: figures first, spans last."""
    if not found:
        return {}
    rows = found.pop("rows")
    return {**found, **more, "spans": as_columns(rows)}
