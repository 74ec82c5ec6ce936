"""How a point's model is laid over its GPUs: asked before anything runs, and again when it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.hardware.sheet import Gpu
from clustersim.kernels import build_workload
from clustersim.model import LayerTime, Model, Workload
from clustersim.parallelism import ModelLayout, TrainingSetup, lay_out
from clustersim.scenario.buffers import point_buffers
from clustersim.scenario.compressed import with_compression
from clustersim.scenario.point import Point
from clustersim.scenario.variability import at_pace, slowest_of


def work_of(
    point: Point,
    model: Model,
    gpu: Gpu,
    batch: int,
    given_times: Sequence[LayerTime | None] | None,
    num_passes: int | None = None,
) -> Workload:
    """Return a training's work on a GPU for a batch of its own; an update has `num_passes` of them, or the point's."""
    return build_workload(
        model,
        gpu,
        batch,
        point.precision,
        point.optimizer,
        point.compute,
        given_times,
        point.gradient_bytes,
        num_passes or point.parallelism.num_passes,
    )


def layout_of(point: Point, whole: Workload, given_times: Sequence[LayerTime | None] | None) -> ModelLayout:
    """Return the layout of a point; `whole` is the undivided model's work at the micro-batch, on the mean GPU.

    Its times are those of the slowest GPU, for which all wait. It is made once: what was checked is what runs.
    """
    key = id(point), whole.gpu.name
    if key not in _MADE:
        if len(_MADE) >= _MOST_MADE:
            del _MADE[next(iter(_MADE))]
        _MADE[key] = point, _made(point, whole, given_times)
    return _MADE[key][1]


_MOST_MADE = 4
_MADE: dict[tuple[int, str], tuple[Point, ModelLayout]] = {}
"""The latest layouts by their points, which are kept with them, so that no other can come to stand in their place."""


def _made(point: Point, whole: Workload, given_times: Sequence[LayerTime | None] | None) -> ModelLayout:
    factor = slowest_of(point, whole.gpu, given_times, point.num_gpus, num_hosts=1)
    training = TrainingSetup(
        whole=at_pace(of_a_batch(point, whole, point.micro_batch, given_times), factor),
        optimizer=point.optimizer,
        library=point.compute.library,
        caps=point.strategy.bucket_caps(
            whole.gradient_bytes_per_parameter, point.grid.num_replicas, point.parallelism.sliced
        ),
        overlap=point.strategy.overlap,
        buffers=point_buffers(point),
        copied_bytes=None if point.input is None else point.input.copied_bytes or 0.0,
        work_at=lambda batch: at_pace(
            of_a_batch(point, work_of(point, whole.model, whole.gpu, batch, given_times), batch, given_times), factor
        ),
    )
    return with_compression(point, lay_out(point.parallelism, point.grid, training), training.whole)


def of_a_batch(point: Point, work: Workload, batch: int, given_times: Sequence[LayerTime | None] | None) -> Workload:
    """Return work in which times that a file gives, which are for a GPU's batch, are those of another one."""
    if not given_times:
        return work
    share = batch * point.num_gpus / point.global_batch
    layers = [
        time if given is None else time.scaled(share) for time, given in zip(work.layers, given_times, strict=True)
    ]
    return replace(work, layers=tuple(layers))
