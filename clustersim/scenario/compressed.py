"""Gradients of a point compressed or copied: what they are to those who exchange them, and what they make of a layout.

The ranks that stand at one place of every copy of a model have the same part of it. They compress the gradients of
that part, or copy them, each bucket as soon as it is ready, and exchange them among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.kernels import Compression, moved_s
from clustersim.model import Workload
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.parallelism import LaidOut
from clustersim.parallelism.gradient_kernels import AUTOGRADS
from clustersim.parallelism.plan import StagePlan, iteration_of
from clustersim.program import Bucket, Codec, Copies, Wire, with_codec_ops
from clustersim.scenario.memory import compression_of
from clustersim.scenario.point import Point


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


def copies_of(point: Point, num_workers: int) -> Copies:
    """Return how often gradients are copied to travel; nobody copies what none is sent.

    What compresses gradients writes them into their buckets and reads them there, so that they are not copied as well;
    those that are as short already it leaves as they are. So do `gradient_kernels` of codes with buckets of their own.
    """
    if num_workers == 1 and not point.strategy.sends_alone:
        return Copies()
    layout = point.parallelism
    is_whole = layout.kind == "grid" and point.grid.data == point.num_gpus
    is_there = layout.sharding is None and layout.offload == "none" and layout.gradient_kernels in AUTOGRADS
    made = point.strategy.gradient_copies(is_whole and is_there)
    return made._replace(into=0, back=0) if point.compression.encode_moved(point.gradient_bytes) else made


def codec_of(
    point: Point,
    buckets: Sequence[Bucket],
    whole: Workload,
    num_workers: int,
    host_bytes_per_s: float | None = None,
) -> Codec:
    """Return how long it takes to compress or copy gradients, of which the buckets have the plain ones.

    A copy reads and writes, on the GPU by a kernel for each gradient. Those who exchange gradients copy what they send
    together by a core of the host instead where that is given: what it reads and writes a second.
    """
    plain, gpu, compression = whole.gradient_bytes_per_parameter, whole.gpu, compression_of(point, num_workers)
    copies, num_back = copies_of(point, num_workers), wire_of(point, compression, plain, num_workers).num_back
    sent = compression.wire_bytes(plain) / plain
    fill_s, empty_s, copied_s = [], 0.0, []
    for bucket in buckets:
        size, moved = bucket.num_bytes / plain, 2 * bucket.num_bytes
        copy_s = moved_s(moved, gpu, bucket.num_gradients)
        fill_s.append(compression.encode_s(size, plain, gpu) + copies.into * copy_s)
        empty_s += compression.decode_s(size, plain, num_back, gpu) + copies.back * copy_s
        is_alone = bucket.num_gradients == 1
        beside_s = moved_s(moved * sent, gpu, bucket.num_gradients)
        if host_bytes_per_s is not None:
            beside_s = moved * sent / host_bytes_per_s
        copied_s.append((0.0 if is_alone else copies.beside * beside_s) + copies.each * copy_s)
    return Codec(fill_s, empty_s, copied_s, sent, at_servers=not point.strategy.updates_on_gpu)


def with_compression(point: Point, laid_out: LaidOut, whole: Workload) -> LaidOut:
    """Return a layout in which every rank compresses, or copies, the gradients that it exchanges with other copies.

    A rank fills each bucket when it is ready, before it goes on, and empties what comes back before its update; or
    before it goes forward, where servers update. Residuals and what is gathered take memory beside all else.
    """
    num_workers = laid_out.num_copies
    compression = compression_of(point, num_workers)
    if compression.kind == "none" and not any(copies_of(point, num_workers)):
        return laid_out
    gathers = not compression.adds_on_the_way and point.strategy.updates_on_gpu
    plain = whole.gradient_bytes_per_parameter
    plans, memory = [], []
    for plan, held in zip(laid_out.plans, laid_out.memory, strict=True):
        buckets = plan.iteration.buckets
        plans.append(_coded(plan, codec_of(point, buckets, whole, num_workers)))
        parameters = sum(bucket.num_bytes for bucket in buckets) / plain
        more = {
            "residuals": parameters * compression.residual_bytes_per_parameter,
            "gathered": parameters * num_workers * compression.wire_bytes(plain) if gathers else 0.0,
        }
        memory.append(held | {name: size for name, size in more.items() if size})
    added = [sum(after.values()) - sum(held.values()) for after, held in zip(memory, laid_out.memory, strict=True)]
    lasting = [replace(held, beside=held.beside + more) for held, more in zip(laid_out.held, added, strict=False)]
    return replace(laid_out, plans=tuple(plans), memory=tuple(memory), held=tuple(lasting))


def _coded(plan: StagePlan, codec: Codec) -> StagePlan:
    """Return the plan of a stage that fills and empties its buckets."""
    iteration = plan.iteration
    program = with_codec_ops(plan.program, iteration.buckets, codec)
    update_s = iteration.update_s + (0.0 if codec.at_servers else codec.empty_s)
    return replace(plan, program=program, iteration=iteration_of(program, codec.packed(iteration.buckets), update_s))
