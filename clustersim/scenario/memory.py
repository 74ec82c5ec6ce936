"""What a GPU holds in a training, and whether that fits: checked before anything runs, and part of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.errors import Mistake
from clustersim.hardware.sheet import Gpu
from clustersim.kernels import memory_lack, memory_overflow, memory_per_gpu
from clustersim.kernels.narrow_gemms import narrow_inputs
from clustersim.model import Model
from clustersim.model.casts import casts_of
from clustersim.scenario.buffers import point_buffers
from clustersim.scenario.compression import compression_of
from clustersim.scenario.plan_checks import plan_mistakes
from clustersim.scenario.point import Point
from clustersim.units import format_size


def gpu_memory(point: Point, model: Model, batch: int | None = None) -> dict[str, float]:
    """Return the bytes that each GPU holds, by purpose; `batch` is samples per GPU, by default the point's.

    On top of `memory_per_gpu`: what a compression keeps from one iteration for the next, and, where compressed
    gradients cannot be added and are gathered, the gathered gradients of all workers. A single GPU frees gradients
    after each update. Where gradients are exchanged, their buffers stay allocated (`point_buffers`).
    """
    size, stay = batch or point.per_gpu_batch, point.num_gpus > 1
    casts = casts_of(point.compute.casts, 1, point.precision, point.compute.wide_share)
    narrow = narrow_inputs(model, point.precision, casts)
    held = memory_per_gpu(model, size, point.precision, point.optimizer, point.gradient_bytes, stay, narrow)
    parameters, compression = float(model.num_parameters), compression_of(point)
    sent = compression.wire_bytes(point.gradient_bytes * model.weight_share)
    is_gathered = not compression.adds_on_the_way and point.strategy.updates_on_gpu
    others = {
        "residuals": parameters * compression.residual_bytes_per_parameter,
        "gathered": parameters * point.num_gpus * sent if is_gathered else 0.0,
        "outer step": parameters * model.weight_share * point.strategy.stored_bytes_per_parameter
        if point.num_gpus > 1
        else 0.0,
    }
    return held | {name: size for name, size in others.items() if size} | point_buffers(point).held(held["gradients"])


def memory_mistakes(point: Point, model: Model, gpus: Sequence[Gpu]) -> Iterator[Mistake]:
    """Yield that the training does not fit on one of these GPUs, at the key to change: the batch, or the model."""
    if not point.memory_check:
        return
    held = gpu_memory(point, model)
    for gpu in gpus:
        overflow = memory_overflow(held, gpu)
        if overflow is None:
            continue
        least = gpu_memory(point, model, batch=1)
        one_is_too_many = sum(least.values()) > gpu.memory_bytes
        batch = "batch.global" if point.batch.per_gpu is None else "batch.per_gpu"
        even = f"; even one sample per GPU takes {format_size(sum(least.values()))}" if one_is_too_many else ""
        finds = "; `clustersim plan` finds how to split it over several GPUs so that it fits"
        plan = "" if any(plan_mistakes(point)) else finds
        key = "model" if one_is_too_many else batch
        yield memory_lack(overflow + even + plan, key, sum(held.values()), gpu.memory_bytes)
        return
