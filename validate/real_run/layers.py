"""Every layer by itself: kernels timed one by one, for the forecast of a whole iteration that they add up to."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from clustersim.profiling.cuda_timer import CudaTimer
from clustersim.profiling.layers import trace_layers
from clustersim.profiling.measure import measure_layer
from clustersim.profiling.timer import Timer
from real_run.ranks import Ranks
from real_run.training import Job, Trainee


def single_layers(ranks: Ranks, job: Job, kernel_s: float) -> dict[str, Any]:
    """Return a layer profile of the model, as `clustersim profile` makes it; every rank measures, rank 0's is kept.

    All measure at once, so that what they share (a host's memory, its cooling) is as busy as in training.
    """
    stream = torch.cuda.Stream() if ranks.device.is_cuda else None
    with torch.cuda.stream(stream) if stream is not None else nullcontext():
        timer = Timer(kernel_s) if stream is None else CudaTimer(kernel_s, stream)
        found = _measured(ranks, job, timer)
    return found if ranks.is_first else {}


def _measured(ranks: Ranks, job: Job, timer: Timer) -> dict[str, Any]:
    trainee = Trainee(ranks, job)
    known: dict[str, dict[str, Any]] = {}
    rows = []
    ranks.meet()
    for traced in trace_layers(trainee.graph, trainee.batch, job.precision):
        if traced.key not in known:
            times = measure_layer(traced, job.precision, ranks.device.torch, timer, ranks.device.cache_bytes)
            known[traced.key] = {"shape": traced.shape(), **times}
        layer = traced.layer
        rows.append({"name": layer.name, "op": layer.op, "fused": list(layer.fused), **known[traced.key]})
    for parameter in trainee.parameters:
        parameter.grad = torch.zeros_like(parameter)
    trainee.update()
    step = timer.time([trainee.update])
    ranks.meet()
    return {"layers": rows, "update_s": step.median_s}
