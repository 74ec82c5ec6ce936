"""Work on a GPU and a host that are faster or slower than their sheets say.

The law T of kernels (`kernel_model`) depends on the FLOP rate F, the memory rate M, and on times that no rate divides,
such as launches. With rates and these times f, m and k times as fast, it is

    T(F f / k, M m / k) / k

since all of it scales: with f = m = k it is T(F, M) / k. Each layer's known time, also a measured or a published one,
is multiplied by the ratio of this to T(F, M) by the law of the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.hardware.speeds import HOST, Speeds, gpu_at
from clustersim.kernels.compute_time import update_work
from clustersim.kernels.host_issue import host_of
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.programs.blocking_launches import update_wait_s, with_launch_waits
from clustersim.model import LayerTime, Workload
from clustersim.software import load_host


@cached_by_identity(64)
def faster_gpu(gpu: Gpu, flop: float, memory: float, kernels: float) -> Gpu:
    """Return the GPU in whose times, divided by `kernels`, rates have these factors; the same object each time."""
    return gpu_at(gpu, flop / kernels, memory / kernels)


class _Waits(NamedTuple):
    """What a process that waits for each kernel waits, in the times of layers and of the update."""

    library: Library
    host_sheet: str
    precision: str

    def added(self, layers: Sequence[LayerTime], factor: float, sign: int) -> tuple[LayerTime, ...]:
        return with_launch_waits(layers, *self, factor, sign)

    def of_update(self, layers: Sequence[LayerTime], factor: float) -> float:
        return update_wait_s(host_of(layers, load_host(self.host_sheet), factor))


def work_at(work: Workload, speeds: Speeds, optimizer: OptimizerSpec, library: Library) -> Workload:
    """Return the work of a GPU on a cluster as fast as `speeds` say."""
    if not speeds.of_compute.factors:
        return work
    flop, memory, kernels = speeds.of_gpu
    gpu, host = faster_gpu(work.gpu, flop, memory, kernels), speeds.factor(HOST)
    layers, update_s, waits = work.layers, work.optimizer_s, None
    if work.launch == "blocking":
        waits = _Waits(library, work.host_sheet, work.precision)
        update_s -= waits.of_update(layers, work.issue_factor)
        layers = waits.added(layers, work.issue_factor, -1)
    layers = tuple(each.issued_in(1 / host) for each in _scaled(work, layers, gpu, kernels, memory, library))
    update_s *= _update_ratio(work, gpu, optimizer) / kernels
    if waits is not None:
        update_s += waits.of_update(layers, work.issue_factor / host)
        layers = waits.added(layers, work.issue_factor / host, 1)
    return replace(
        work,
        layers=layers,
        optimizer_s=update_s,
        gpu=gpu,
        host=work.host.scaled(1 / host),
        issue_factor=work.issue_factor / host,
        kernel_factor=work.kernel_factor / kernels,
    )


def _scaled(
    work: Workload, layers: Sequence[LayerTime], gpu: Gpu, kernels: float, memory: float, library: Library
) -> list[LayerTime]:
    """Return the layers with the times of kernels on another GPU, divided by `kernels`.

    A pass for which the law has no time is taken to be bound by memory.
    """
    if gpu is work.gpu:
        return [each.scaled(1 / kernels) for each in layers] if kernels != 1 else list(layers)

    def estimated(on: Gpu) -> tuple[LayerTime, ...]:
        return estimate_layers(
            work.model, on, work.batch, work.precision,
            library=library, layout=work.layout, casts=work.casts, casts_back=work.casts_back, kernels=work.kernels,
        ).layers  # fmt: skip

    def seconds(known: float, before: float, after: float) -> float:
        return known * after / before / kernels if before else known / memory

    return [
        replace(
            known,
            forward_s=seconds(known.forward_s, one.forward_s, other.forward_s),
            backward_data_s=seconds(known.backward_data_s, one.backward_data_s, other.backward_data_s),
            backward_weights_s=seconds(known.backward_weights_s, one.backward_weights_s, other.backward_weights_s),
        )
        for known, one, other in zip(layers, estimated(work.gpu), estimated(gpu), strict=True)
    ]


def _update_ratio(work: Workload, gpu: Gpu, optimizer: OptimizerSpec) -> float:
    """Return the time of the update on another GPU over that on the work's."""
    if gpu is work.gpu or optimizer.skipped:
        return 1.0
    before = update_work(work.model, work.gpu, work.precision, optimizer).seconds
    return update_work(work.model, gpu, work.precision, optimizer).seconds / before if before else 1.0
