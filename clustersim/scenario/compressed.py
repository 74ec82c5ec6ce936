"""Compressed gradients of a point: what they are to those who exchange them, and what they make of a layout.

The ranks that stand at one place of every copy of a model have the same part of it. They compress the gradients of
that part, each bucket as soon as it is ready, and exchange them among themselves.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.parallelism import LaidOut
from clustersim.parallelism.plan import StagePlan, iteration_of
from clustersim.program import Wire, with_codec_ops
from clustersim.scenario.memory import compression_of
from clustersim.scenario.point import Point
from clustersim.workload import Compression, Workload


def wire_of(point: Point, compression: Compression, gradient_bytes: float, num_workers: int) -> Wire:
    """Return what compressed gradients are to those who exchange them, whose plain ones have `gradient_bytes` each.

    Among themselves, `num_workers` gather every one's gradient where they cannot be added. Servers send back what
    cannot be compressed so: parameters, at the size of plain gradients.
    """
    if compression.adds_on_the_way:
        return Wire()
    sent = compression.wire_bytes(gradient_bytes)
    added = max(1.0, compression.added_moved(gradient_bytes) / (BYTES_MOVED_PER_ADDED * sent))
    if point.strategy.updates_on_gpu:
        return Wire(adds=False, num_back=num_workers, back_per_byte=num_workers, added_per_byte=added)
    return Wire(adds=False, num_back=0, back_per_byte=gradient_bytes / sent, added_per_byte=added)


def with_compression(point: Point, laid_out: LaidOut, whole: Workload) -> LaidOut:
    """Return a layout in which every rank compresses the gradients that it exchanges with the other copies.

    A rank encodes each bucket when it is ready, before it goes on, and decodes what comes back before its update; or
    before it goes forward, where servers update. Residuals and what is gathered take memory beside all else.
    """
    num_workers = laid_out.num_copies
    compression = compression_of(point, num_workers)
    if compression.kind == "none":
        return laid_out
    plain = whole.gradient_bytes_per_parameter
    wire = wire_of(point, compression, plain, num_workers)
    gathers = not compression.adds_on_the_way and point.strategy.updates_on_gpu
    sent = compression.wire_bytes(plain)
    plans, memory = [], []
    for plan, held in zip(laid_out.plans, laid_out.memory, strict=True):
        sizes = [bucket.num_bytes / plain for bucket in plan.iteration.buckets]
        encode_s = [compression.encode_s(size, plain, whole.gpu) for size in sizes]
        decode_s = sum(compression.decode_s(size, plain, wire.num_back, whole.gpu) for size in sizes)
        plans.append(_coded(plan, encode_s, decode_s, sent / plain, at_servers=not point.strategy.updates_on_gpu))
        more = {
            "residuals": sum(sizes) * compression.residual_bytes_per_parameter,
            "gathered": sum(sizes) * num_workers * sent if gathers else 0.0,
        }
        memory.append(held | {name: size for name, size in more.items() if size})
    added = [sum(after.values()) - sum(held.values()) for after, held in zip(memory, laid_out.memory, strict=True)]
    lasting = [replace(held, beside=held.beside + more) for held, more in zip(laid_out.held, added, strict=False)]
    return replace(laid_out, plans=tuple(plans), memory=tuple(memory), held=tuple(lasting))


def _coded(plan: StagePlan, encode_s: list[float], decode_s: float, share: float, at_servers: bool) -> StagePlan:
    """Return the plan of a stage that encodes its buckets, of which a `share` of the bytes is sent."""
    iteration = plan.iteration
    names = [bucket.name for bucket in iteration.buckets]
    program = with_codec_ops(plan.program, names, encode_s, decode_s if at_servers else 0.0)
    buckets = [(bucket.name, bucket.num_bytes * share) for bucket in iteration.buckets]
    update_s = iteration.update_s + (0.0 if at_servers else decode_s)
    return replace(plan, program=program, iteration=iteration_of(program, buckets, update_s))
