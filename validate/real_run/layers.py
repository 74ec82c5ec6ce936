"""Times every layer separately, for a forecast of a whole iteration from the sum of its kernels."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from clustersim.profiling.cuda_timer import CudaTimer
from clustersim.profiling.layers import trace_layers
from clustersim.profiling.measure import measure_layer
from clustersim.profiling.timer import Timer
from real_run.ranks import Ranks
from real_run.training import Job, LocalTraining


def single_layers(ranks: Ranks, job: Job, kernel_s: float) -> dict[str, Any]:
    """Return a layer profile of the model, as from `clustersim profile`; every rank measures, and rank 0's is kept.

    All ranks measure at the same time, so that shared resources (a host's memory, its cooling) are as busy as in
    training.
    """
    stream = torch.cuda.Stream() if ranks.device.is_cuda else None
    with torch.cuda.stream(stream) if stream is not None else nullcontext():
        timer = Timer(kernel_s) if stream is None else CudaTimer(kernel_s, stream)
        found = _measured(ranks, job, timer)
    return found if ranks.is_first else {}


def _measured(ranks: Ranks, job: Job, timer: Timer) -> dict[str, Any]:
    training = LocalTraining(ranks, job)
    known: dict[str, dict[str, Any]] = {}
    rows = []
    ranks.barrier()
    for traced in trace_layers(training.graph, training.batch, job.precision):
        if traced.key not in known:
            times = measure_layer(traced, job.precision, ranks.device.torch, timer, ranks.device.cache_bytes)
            known[traced.key] = {"shape": traced.shape(), **times}
        layer = traced.layer
        rows.append({"name": layer.name, "op": layer.op, "fused": list(layer.fused), **known[traced.key]})
    for parameter in training.parameters:
        parameter.grad = torch.zeros_like(parameter)
    training.update()
    step = timer.time([training.update])
    ranks.barrier()
    return {"layers": rows, "update_s": step.median_s}
