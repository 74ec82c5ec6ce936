"""The same training on fewer GPUs, for the baseline of a run: what changes with their number, and all that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clustersim.parallelism import Parallelism
from clustersim.parallelism.nearest import divisors
from clustersim.parallelism.spec import MOST_MICRO_BATCHES
from clustersim.scenario.parts import Batch
from clustersim.scenario.point import Point
from clustersim.strategies.all_reduce import AllReduce

_KEPT = ("recompute", "offload", "gradient_kernels")
"""Keys of `parallelism` that one GPU has as well: how it computes and stores, and not how GPUs share the work."""


def undisturbed(point: Point) -> Point:
    """Return the training alone on the cluster, without stragglers and failures; samples are always ready."""
    return point.model_copy(update={"stragglers": [], "failures": None, "input": None, "jobs": 1, "replicates": 1})


def one_gpu_batch(point: Point) -> int:
    """Return the batch of the one GPU that a point is compared with: per GPU, or global if the scenario fixes that."""
    return point.batch.global_ or point.per_gpu_batch


def on_one_gpu(point: Point) -> list[Point]:
    """Return the training on one GPU, which has the whole model: the batch at once, then in ever more micro-batches.

    It recomputes, offloads and sums gradients as before.
    """
    before, batch = point.parallelism, one_gpu_batch(point)
    kept: dict[str, Any] = {key: getattr(before, key) for key in _KEPT} if before.kind == "grid" else {}
    if before.recompute_blocks is not None:
        kept["recompute_blocks"] = before.recompute_blocks * point.grid.pipeline * before.chunks
    changes = {"num_gpus": 1, "batch": Batch.model_validate({"global": batch}), "strategy": AllReduce()}
    alone = undisturbed(point).model_copy(update=changes)
    return _in_micro_batches(alone, Parallelism().model_copy(update=kept), batch)


def on_fewer_gpus(point: Point) -> Iterator[list[Point]]:
    """Yield the training on fewer GPUs but more than one, the fewest first, each in ever more micro-batches.

    They hold fewer replicas of the model, each on as many GPUs as before, or, if tiles and paths follow from the number
    of GPUs, fewer of these. Micro-batches are at most as large as before where a model has stages, and as large where
    the batch per GPU is fixed. Some of them may turn out to be impossible.
    """
    layout, batch = point.parallelism, point.batch.global_
    for num_gpus, replicas in _sizes(point):
        changes: dict[str, Any] = {"data": replicas}
        if layout.sharding_over is not None and layout.sharding_over > num_gpus:
            changes["sharding_over"] = None
        fewer, smaller = undisturbed(point).model_copy(update={"num_gpus": num_gpus}), layout.model_copy(update=changes)
        if batch is None or layout.kind != "grid":
            yield [fewer.model_copy(update={"parallelism": smaller})]
            continue
        least = layout.micro_batches * point.grid.data // replicas if point.grid.pipeline > 1 else 1
        yield _in_micro_batches(fewer, smaller, batch // (replicas * point.grid.expert), least)


def _in_micro_batches(point: Point, layout: Parallelism, batch: int, least: int = 1) -> list[Point]:
    """Return a training with each number of micro-batches of a replica with this batch, from `least` up."""
    numbers = [number for number in divisors(batch) if least <= number <= MOST_MICRO_BATCHES] or [least]
    layouts = [layout.model_copy(update={"micro_batches": number}) for number in numbers]
    return [point.model_copy(update={"parallelism": each}) for each in layouts]


def _sizes(point: Point) -> Iterator[tuple[int, int]]:
    """Yield numbers of GPUs above one and below the point's, and the replicas on them."""
    layout, replicas = point.parallelism, point.grid.data
    each = point.num_gpus // replicas
    if layout.kind in ("local-fields", "paths") and layout.tiles is None:
        yield from ((num_gpus, 1) for num_gpus in divisors(each)[1:-1])
    yield from ((each * fewer, fewer) for fewer in divisors(replicas)[:-1] if each * fewer > 1)
