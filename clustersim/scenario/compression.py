"""The compression and the copies of a point's gradients: their cost, their wire size, and their effect on a layout.

The ranks at one position of every copy of a model have the same part of it. They compress or copy the gradients of that
part, each bucket as soon as it is ready, and exchange them among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.kernels import Compression, NoCompression, moved_s
from clustersim.model import Workload
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.parallelism import ModelLayout
from clustersim.parallelism.gradient_kernels import AUTOGRADS
from clustersim.parallelism.plan import StagePlan, iteration_of
from clustersim.program import Bucket, Codec, Copies, Wire, with_codec_ops
from clustersim.scenario.point import Point
from clustersim.scenario.stored import with_memory


def compression_of(point: Point, num_workers: int | None = None) -> Compression:
    """Return the compression of gradients, which is none where no gradients are sent.

    Every GPU is a worker, unless `num_workers` gives the number of ranks with the same parameters.
    """
    is_sent = (num_workers or point.num_gpus) > 1 or point.strategy.sends_alone
    return point.compression if is_sent else NoCompression()


def wire_of(point: Point, compression: Compression, gradient_bytes: float, num_workers: int) -> Wire:
    """Return how compressed gradients travel; an uncompressed one has `gradient_bytes`.

    Where compressed gradients cannot be added, `num_workers` workers gather those of all workers. Parameter servers
    send back parameters, which are not compressed: they have the size of uncompressed gradients.
    """
    if compression.adds_on_the_way:
        return Wire()
    sent = compression.wire_bytes(gradient_bytes)
    added = max(1.0, compression.added_moved(gradient_bytes) / (BYTES_MOVED_PER_ADDED * sent))
    if point.strategy.updates_on_gpu:
        return Wire(adds=False, num_back=num_workers, back_per_byte=num_workers, added_per_byte=added)
    return Wire(adds=False, num_back=0, back_per_byte=gradient_bytes / sent, added_per_byte=added)


def copies_of(point: Point, num_workers: int) -> Copies:
    """Return how many copies gradients take to be exchanged; none where no gradients are sent.

    Compression writes gradients into their buckets and reads them there, so no copy into or out of a bucket is added,
    unless the gradients already have the compressed size. `gradient_kernels` of codes with buckets of their own also
    make these copies themselves.
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
    """Return the times to compress or copy gradients; `buckets` have the sizes of uncompressed ones.

    A copy reads and writes, on the GPU with one kernel per gradient. If `host_bytes_per_s` is given, a host core at
    that rate of reads and writes copies the gradients that are sent together, in place of the GPU.
    """
    plain, gpu, compression = whole.gradient_bytes_per_parameter, whole.gpu, compression_of(point, num_workers)
    copies, num_back = copies_of(point, num_workers), wire_of(point, compression, plain, num_workers).num_back
    sent, factor = compression.wire_bytes(plain) / plain, whole.kernel_factor
    fill_s, empty_s, copied_s = [], 0.0, []
    for bucket in buckets:
        size, moved = bucket.num_bytes / plain, 2 * bucket.num_bytes
        copy_s = factor * moved_s(moved, gpu, bucket.num_gradients)
        fill_s.append(factor * compression.encode_s(size, plain, gpu) + copies.into * copy_s)
        empty_s += factor * compression.decode_s(size, plain, num_back, gpu) + copies.back * copy_s
        is_alone = bucket.num_gradients == 1
        beside_s = factor * moved_s(moved * sent, gpu, bucket.num_gradients)
        if host_bytes_per_s is not None:
            beside_s = moved * sent / host_bytes_per_s
        copied_s.append((0.0 if is_alone else copies.beside * beside_s) + copies.each * copy_s)
    return Codec(fill_s, empty_s, copied_s, sent, at_servers=not point.strategy.updates_on_gpu)


def with_compression(point: Point, laid_out: ModelLayout, whole: Workload) -> ModelLayout:
    """Return the layout with the compression or copies of the gradients that each rank exchanges.

    A rank fills each bucket as soon as it is ready, before its next kernel. It empties the received buckets before its
    update, or before its forward pass where servers update. Residuals and gathered gradients take extra memory.
    """
    num_workers = laid_out.num_replicas
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
    return with_memory(replace(laid_out, plans=tuple(plans)), memory)


def _coded(plan: StagePlan, codec: Codec) -> StagePlan:
    """Return the plan of a stage with the operations that fill and empty its buckets."""
    iteration = plan.iteration
    program = with_codec_ops(plan.program, iteration.buckets, codec)
    update_s = iteration.update_s + (0.0 if codec.at_servers else codec.empty_s)
    return replace(plan, program=program, iteration=iteration_of(program, codec.packed(iteration.buckets), update_s))
