"""The layout of a point's model on its GPUs, for the checks before a run and for the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.hardware import load_cpu, load_transport
from clustersim.hardware.sheet import Gpu
from clustersim.kernels import build_workload
from clustersim.kernels.faster import work_at
from clustersim.kernels.layer_times import Library
from clustersim.kernels.programs.blocking_launches import with_launch_waits
from clustersim.model import LayerTime, Model, Workload
from clustersim.model.layer import Anchoring
from clustersim.parallelism import ModelLayout, TrainingSetup, lay_out
from clustersim.scenario.buffers import point_buffers
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.compression import with_compression
from clustersim.scenario.point import Point
from clustersim.scenario.stored import with_stored
from clustersim.scenario.variability import at_pace, slowest_of


def work_of(
    point: Point,
    model: Model,
    gpu: Gpu,
    batch: int,
    given_times: Sequence[LayerTime | None] | None,
    num_passes: int | None = None,
) -> Workload:
    """Return the work of one GPU for its batch; an update has `num_passes` passes, by default the point's.

    Other libraries than NCCL send from the host: what that takes is part of the transport's sheet, and is not counted
    twice.
    """
    work = build_workload(
        model,
        gpu,
        batch,
        point.precision,
        point.optimizer,
        point.compute,
        given_times,
        point.gradient_bytes,
        num_passes or point.parallelism.num_passes,
        issue_factor(point),
        num_shards(point),
    )
    work = _anchored(work, point.anchoring, point.compute.library)
    work = work_at(work, point.speeds, point.optimizer, point.compute.library)
    if load_transport(point.transport).library.startswith("nccl"):
        return work
    return replace(work, host=work.host._replace(exchange_s=0.0, message_s=0.0))


def _anchored(work: Workload, anchoring: Anchoring | None, library: Library) -> Workload:
    """Return work whose kernels, and its host that issues them, take `factor` times as long, after a fixed time.

    A process that waits for each of its kernels waits as long for it as before.
    """
    if anchoring is None:
        return work
    factor, layers, is_blocking = anchoring.factor, work.layers, work.launch == "blocking"
    of_process = library, work.host_sheet, work.precision, work.issue_factor
    layers = with_launch_waits(layers, *of_process, -1) if is_blocking else layers
    layers = tuple(layer.scaled(factor, "anchored").issued_in(factor) for layer in layers)
    return replace(
        work,
        layers=with_launch_waits(layers, *of_process) if is_blocking else layers,
        optimizer_s=factor * work.optimizer_s,
        host=work.host.scaled(factor),
        kernel_factor=factor,
        fixed_s=anchoring.fixed_s,
    )


def issue_factor(point: Point) -> float:
    """Return the time that the cluster's first host takes to issue kernels, relative to the sheets of programs."""
    topology = build_topology(point.topology)
    sheet = topology.host_sheets[int(topology.gpu_hosts[0])] if len(topology.gpu_hosts) else None
    return load_cpu(sheet).issue_factor if sheet else 1.0


def num_shards(point: Point) -> int:
    """Return the number of ranks that shard weights."""
    return point.grid.shard_group_size if point.parallelism.sharding == "zero-3" else 1


def share_layouts(point: Point, other: Point) -> None:
    """Let a training that differs from another in nothing that its layouts depend on have those known of the other."""
    for (number, gpu), (owner, layout) in [*_CACHE.items()]:
        if number == id(other):
            del _CACHE[number, gpu]
            _keep((number, gpu), owner, layout)
            _keep((id(point), gpu), point, layout)


def layout_of(point: Point, whole: Workload, given_times: Sequence[LayerTime | None] | None) -> ModelLayout:
    """Return the layout of a point; `whole` is the work of the whole model for a micro-batch on the mean GPU.

    Its times are those of the slowest GPU, for which all others wait. A layout is computed once: the run uses the
    layout that was checked.
    """
    key = id(point), whole.gpu.name
    if key not in _CACHE:
        _keep(key, point, _computed(point, whole, given_times))
    return _CACHE[key][1]


def _keep(key: tuple[int, str], point: Point, layout: ModelLayout) -> None:
    if len(_CACHE) >= _CACHE_SIZE:
        del _CACHE[next(iter(_CACHE))]
    _CACHE[key] = point, layout


_CACHE_SIZE = 4
_CACHE: dict[tuple[int, str], tuple[Point, ModelLayout]] = {}
"""The latest layouts by the ids of their points. It holds the points too, so that their ids are not reused."""


def _computed(point: Point, whole: Workload, given_times: Sequence[LayerTime | None] | None) -> ModelLayout:
    factor = slowest_of(point, whole.gpu, given_times, point.num_gpus, num_hosts=1)
    groups_apart = point.strategy.trains_groups and point.grid.shared_over is not None
    training = TrainingSetup(
        whole=at_pace(of_a_batch(point, whole, point.micro_batch, given_times), factor),
        optimizer=point.optimizer,
        library=point.compute.library,
        caps=point.strategy.bucket_caps(
            whole.gradient_bytes_per_parameter, point.grid.num_replicas, point.parallelism.sliced
        ),
        overlap=point.strategy.overlap or groups_apart,
        buffers=point_buffers(point),
        groups_apart=groups_apart,
        copied_bytes=None if point.input is None else point.input.copied_bytes or 0.0,
        work_at=lambda batch: at_pace(
            of_a_batch(point, work_of(point, whole.model, whole.gpu, batch, given_times), batch, given_times), factor
        ),
    )
    laid_out = with_stored(point, lay_out(point.parallelism, point.grid, training))
    return with_compression(point, laid_out, training.whole)


def of_a_batch(point: Point, work: Workload, batch: int, given_times: Sequence[LayerTime | None] | None) -> Workload:
    """Return work with the times from a file, which are for a GPU's batch, scaled to another batch."""
    if not given_times:
        return work
    share = batch * point.num_gpus / point.global_batch
    layers = [
        time if given is None else time.scaled(share) for time, given in zip(work.layers, given_times, strict=True)
    ]
    return replace(work, layers=tuple(layers))
