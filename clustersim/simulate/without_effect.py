"""What a scenario asks for beside a layout that gives it nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.model import Layer
from clustersim.model.shared_weights import shared_weights
from clustersim.parallelism.masks import mask_seconds
from clustersim.parallelism.recomputation import recomputed
from clustersim.scenario import Point

_BY_THE_GPU = ("pytorch", "pytorch-view")


def without_effect(point: Point, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield in words which keys of a layout of a model's layers, and of the strategy beside it, change nothing.

    A schedule orders passes, so that it changes what is kept even on one stage, but not where there is one pass.
    """
    layout, asked = point.parallelism, point.parallelism.model_fields_set
    if "casts" in point.compute.model_fields_set and point.precision != "amp-fp8":
        yield f"compute.casts changes nothing: products of {point.precision} are not cast to 8 bits"
    if point.strategy.sends_shared_twice and not shared_weights(layers):
        yield "strategy.shared_weights changes nothing: no two layers of the model share any"
    if point.optimizer.issue is not None and point.num_gpus == 1:
        yield "optimizer.issue changes nothing: one GPU's process waits for no sums, and issues its update ahead"
    if point.strategy.blocks_parents and point.num_gpus == 1:
        yield "strategy.stream changes nothing: one GPU copies nothing to another"
    if layout.kind != "grid":
        return
    grid = point.grid
    if "expert_imbalance" in asked and grid.expert == 1:
        yield "parallelism.expert_imbalance changes nothing: experts are not shared out (expert is 1)"
    if "balance" in asked and grid.pipeline == 1:
        yield "parallelism.balance changes nothing: all layers lie on one stage (pipeline is 1)"
    if "balance" in asked and grid.pipeline > 1 and layout.stages is not None:
        yield "parallelism.balance changes nothing: stages says how many layers each has"
    if "messages" in asked and layout.messages != "beside" and grid.pipeline == 1:
        yield "parallelism.messages changes nothing: all layers lie on one stage (pipeline is 1)"
    if layout.handed == "whole" and 1 in (grid.pipeline, grid.tensor):
        yield "parallelism.handed changes nothing: no stage hands over what several GPUs have (pipeline or tensor is 1)"
    if layout.recompute != "none" and not any(recomputed(layers, layout.recompute)):
        yield f"parallelism.recompute changes nothing: the model has nothing that {layout.recompute} computes again"
    if layout.input_sums == "each" and grid.tensor == 1:
        yield "parallelism.input_sums changes nothing: layers are whole (tensor is 1)"
    one_pass = grid.pipeline == 1 and layout.num_passes == 1
    if "schedule" in asked and layout.schedule in ("gpipe", "1f1b") and one_pass:
        yield "parallelism.schedule changes nothing: there is one micro-batch on one stage"
    if "gather_overlap" in asked and layout.gather_overlap and grid.num_replicas == 1:
        yield "parallelism.gather_overlap changes nothing: there is one copy, which has no weights to gather"
    if "gathers" in asked and layout.gathers == "micro-batch" and grid.shard_group_size == 1:
        yield "parallelism.gathers changes nothing: nobody shares anything out (one sharer)"
    if "sharding_copies" in asked and layout.sharding_copies != "none" and grid.shard_group_size == 1:
        yield "parallelism.sharding_copies changes nothing: nobody shares anything out (one sharer)"
    if "joined_sums" in asked and grid.shared_over is None:
        yield "parallelism.joined_sums changes nothing: no two groups have the same shares (there is one group)"
    if layout.gradient_kernels == "autograd" and layout.num_passes == 1:
        yield "parallelism.gradient_kernels changes nothing: autograd adds nothing up where there is one micro-batch"
    if layout.masks == "host" and not mask_seconds(layers):
        yield "parallelism.masks changes nothing: a mask of the model's attention is made in memory that is there"
    given = point.strategy.model_fields_set
    if "copies" in given and grid.num_replicas == 1 and getattr(point.strategy, "copies", "") not in ("auto", "none"):
        yield "strategy.copies changes nothing: there is one copy of the model, which sends no gradients"
    is_awaited = layout.sharding == "zero-2" and not layout.offloads("optimizer") and grid.shared_over is None
    if "overlap" in given and layout.sharding in ("zero-2", "zero-3") and not (is_awaited and grid.expert == 1):
        yield f"strategy.overlap changes nothing: with {layout.sharding} gradients set off as each block has them"
    if "copies" in given and (layout.sharding or layout.offloads("optimizer") or layout.schedule == "pipedream"):
        yield "strategy.copies changes nothing: only gradients that nobody shares out or takes away come into buckets"
    encodes = point.compression.encode_moved(point.gradient_bytes) > 0
    if "copies" in given and encodes and getattr(point.strategy, "copies", "") in _BY_THE_GPU:
        yield f"strategy.copies changes nothing: {point.compression.kind} writes gradients into their buckets as it is"
    if "buckets" in given and layout.sharding == "zero-3":
        yield "strategy.buckets changes nothing: with zero-3 gradients and weights travel block by block"
