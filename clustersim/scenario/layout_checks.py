"""Checks of `parallelism`: whether the model can be split over the GPUs as the scenario asks."""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError, Mistake
from clustersim.parallelism.gradient_kernels import DEEPSPEED_ZERO, MEGATRON_LLAMA
from clustersim.parallelism.schedules import SCHEDULES
from clustersim.parallelism.spec import Parallelism
from clustersim.scenario.keys import PointKeys
from clustersim.scenario.layout_compatibility import compatibility_mistakes
from clustersim.scenario.offload_checks import offload_mistakes
from clustersim.strategies import strategies_with

_IN_STEP_BY = {
    "one-weird-trick": "fully connected layers on all GPUs",
    "local-fields": "borders that tiles exchange",
    "paths": "paths that join",
}
"""Why the GPUs of a kind of layout synchronize in every iteration."""


def layout_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why the model cannot be split over the GPUs as the scenario asks; keys are those of the scenario."""
    try:
        if not point.is_plain:
            return [replace(each, key=f"parallelism.{each.key}") for each in _split_mistakes(point)]
    except InputError as error:
        return [replace(mistake, key=f"parallelism.{mistake.key}") for mistake in error.mistakes]
    return []


def _split_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why a layout with several GPUs per copy is wrong; raise InputError where its numbers do not divide."""
    layout, grid = point.parallelism, point.grid
    assert point.micro_batch
    for stage in range(grid.pipeline):
        SCHEDULES[layout.schedule](stage, grid.pipeline, layout.num_passes, layout.chunks)
    return [
        *_axis_mistakes(point),
        *_gather_mistakes(point),
        *_pass_gather_mistakes(point),
        *_sharding_mistakes(point),
        *_strategy_mistakes(point),
        *_kernel_mistakes(point),
        *_pipedream_mistakes(point),
        *_mirror_mistakes(point),
        *_time_chunk_mistakes(point),
        *compatibility_mistakes(point),
        *offload_mistakes(point),
    ]


def _axis_mistakes(point: PointKeys) -> list[Mistake]:
    """Return which options need a longer axis of the grid, or another option."""
    layout, grid, mistakes = point.parallelism, point.grid, []
    if layout.chunks > 1 and grid.pipeline == 1:
        message = f"chunks divide pipeline stages, and there is one stage (got {layout.chunks} chunks); give pipeline"
        mistakes.append(Mistake(message, key="chunks", got=str(layout.chunks), allowed="1, or pipeline above 1"))
    if layout.sequence_parallel and grid.tensor == 1:
        message = (
            "sequence_parallel splits the layers between tensor-parallel ones, and tensor is 1; give tensor as well"
        )
        mistakes.append(Mistake(message, key="sequence_parallel", got="true", allowed="with tensor above 1"))
    if layout.handed == "whole" and (layout.sequence_parallel or layout.kind != "grid"):
        other = (
            "sequence_parallel keeps a share on each GPU"
            if layout.sequence_parallel
            else f"{layout.kind} has no stages"
        )
        message = f"handed: whole needs stages whose GPUs all hold the whole activations, and {other}; drop one"
        mistakes.append(Mistake(message, key="handed", got="whole", allowed="in-shares"))
    if layout.sequence_parallel and layout.input_sums == "each":
        message = "input_sums: each is an all-reduce per matrix, and sequence_parallel reduce-scatters once; drop one"
        mistakes.append(Mistake(message, key="input_sums", got="each", allowed="joined"))
    mistakes += _expert_mistakes(layout, grid.expert)
    if layout.tensor_overlap and (grid.tensor == 1 or not layout.sequence_parallel):
        missing = "tensor above 1" if grid.tensor == 1 else "sequence_parallel: true"
        message = f"tensor_overlap exchanges the tokens that sequence_parallel splits over GPUs; give {missing} as well"
        mistakes.append(Mistake(message, key="tensor_overlap", got="true", allowed=f"with {missing}"))
    return mistakes


def _expert_mistakes(layout: Parallelism, degree: int) -> list[Mistake]:
    """Return that hosts of a token are limited, and its exchange does not go by hosts."""
    if layout.expert_hosts is None or layout.expert_exchange == "two-hop" or degree == 1:
        return []
    message = "expert_hosts limits the hosts to which a token is sent once each; give expert_exchange: two-hop"
    got, allowed = str(layout.expert_hosts), "with expert_exchange: two-hop"
    return [Mistake(message, key="expert_hosts", got=got, allowed=allowed)]


def _strategy_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why the layout needs another strategy."""
    layout = point.parallelism
    mistakes = _group_mistakes(point) if layout.sharding is not None and point.strategy.trains_groups else []
    may_shard = point.strategy.all_reduces_gradients or point.strategy.trains_groups
    if layout.sharding is not None and not may_shard:
        message = (
            "sharding uses reduce-scatters and all-gathers between the copies, which only strategy all-reduce has "
            f"(got strategy {point.strategy.kind}); take that, or no sharding"
        )
        mistakes.append(Mistake(message, key="sharding", got=layout.sharding, allowed="strategy: all-reduce"))
    if layout.kind != "grid" and not point.strategy.synchronizes_replicas:
        message = f"{layout.kind} is synchronous: {_IN_STEP_BY[layout.kind]} (got strategy {point.strategy.kind})"
        allowed = " or ".join(f"strategy: {kind}" for kind in strategies_with("synchronizes_replicas"))
        mistakes.append(Mistake(message, key="kind", got=layout.kind, allowed=allowed))
    return mistakes


def _group_mistakes(point: PointKeys) -> list[Mistake]:
    """Return what does not go with groups that shard and train on their own."""
    layout, kind = point.parallelism, point.strategy.kind
    if point.grid.shared_over is None:
        message = (
            f"with strategy {kind} the replicas that shard are a worker, and these are all replicas; give "
            "sharding_over, the replicas of a worker"
        )
        return [Mistake(message, key="sharding", got=str(layout.sharding), allowed="with sharding_over")]
    others = {
        "sharding_by": (layout.sharding_by, "slices"),
        "joined_sums": (layout.joined_sums, None),
        "gather_overlap": (layout.gather_overlap, False),
        "input": (point.input, None),
    }
    return [
        Mistake(
            f"groups that train on their own (strategy {kind}) are simulated without {key}; leave {key} out",
            key=key if key != "input" else "sharding_over",
            got="given",
            allowed=f"no {key}",
        )
        for key, (value, without) in others.items()
        if value != without
    ]


def _sharding_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why the options of sharding do not fit `sharding` or the rest of the layout."""
    layout, mistakes = point.parallelism, []
    over, by = layout.sharding_over, layout.sharding_by
    if over is not None and layout.sharding is None:
        message = f"sharding_over is the number of copies that share a state (got {over}); give sharding as well"
        mistakes.append(Mistake(message, key="sharding_over", got=str(over), allowed="with sharding"))
    if by == "tensors" and layout.sharding != "zero-1":
        why = f"{layout.sharding} cuts gradients into slices" if layout.sharding else "without sharding each has all"
        message = f"sharding_by: tensors divides optimizer state between copies, and {why}; give sharding: zero-1"
        mistakes.append(Mistake(message, key="sharding_by", got=by, allowed="with sharding: zero-1"))
    flat = ("zero-2", "zero-3")
    shared = {"flat": flat, "flat-padded": flat, "parameters": ("zero-3",)}
    if (copies := layout.sharding_copies) != "none" and layout.sharding not in shared[copies]:
        allowed = f"with sharding: {' or '.join(shared[copies])}"
        message = f"sharding_copies: {copies} applies only {allowed} (got {layout.sharding or 'no sharding'})"
        mistakes.append(Mistake(message, key="sharding_copies", got=copies, allowed=allowed))
    if layout.joined_sums is not None and (over is None or layout.sharding not in ("zero-2", "zero-3")):
        allowed = "with sharding_over, and sharding: zero-2 or zero-3"
        message = f"joined_sums sets the all-reduces between groups that shard gradients, so it applies only {allowed}"
        mistakes.append(Mistake(message, key="joined_sums", got=f"{layout.joined_sums:g} B", allowed=allowed))
    given = {"sharding_over": str(over)} if over is not None else {}
    given |= {"sharding_by": by} if by != "slices" else {}
    for key, got in given.items():
        for other, why in _needs_equal_slices(point):
            message = f"{key} does not go with {other}: {why}; leave one of the two out"
            mistakes.append(Mistake(message, key=key, got=got, allowed=f"no {key}, or no {other}"))
    return mistakes


def _kernel_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why `gradient_kernels` does not apply: its kernels sum whole gradients over micro-batches on each GPU."""
    layout, kernels = point.parallelism, point.parallelism.gradient_kernels
    if kernels == MEGATRON_LLAMA and layout.sharding != "zero-2":
        message = (
            f"gradient_kernels: {kernels} moves gradients into slices after every micro-batch; give sharding: zero-2"
        )
        return [Mistake(message, key="gradient_kernels", got=kernels, allowed=f"{kernels} with sharding: zero-2")]
    waits = kernels == DEEPSPEED_ZERO and layout.sharding == "zero-2" and not point.strategy.overlaps_backward
    beside = {
        f"sharding: {layout.sharding}": layout.sharding in ("zero-2", "zero-3")
        and not waits
        and kernels != MEGATRON_LLAMA,
        f"expert: {layout.expert}": waits and (layout.expert or 1) > 1,
        f"sharding_over: {layout.sharding_over}": waits and layout.sharding_over is not None,
        f"offload: {layout.offload}": layout.offloads("optimizer"),
        "schedule: pipedream": layout.schedule == "pipedream",
        f"strategy {point.strategy.kind}": not point.strategy.all_reduces_gradients,
    }
    return [
        Mistake(
            f"gradient_kernels: {kernels} needs GPUs that keep the sums of all their gradients until an all-reduce, "
            f"and with {other} they do not; leave gradient_kernels out",
            key="gradient_kernels",
            got=kernels,
            allowed=f"none, or without {other}",
        )
        for other, is_given in beside.items()
        if is_given and kernels != "none"
    ]


def _needs_equal_slices(point: PointKeys) -> list[tuple[str, str]]:
    """Return which keys need equal slices over all copies, and why."""
    found = []
    if point.grid.expert > 1:
        found.append(("expert", "experts are sharded over all ranks with the same experts"))
    if point.parallelism.offloads("optimizer"):
        found.append(("offload", "every host updates an equal slice of all state"))
    return found


def _gather_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why no gather of updated weights can overlap with forward passes."""
    layout, key = point.parallelism, "gather_overlap"
    if not layout.gather_overlap:
        return []
    if layout.sharding not in ("zero-1", "zero-2"):
        why = "zero-3 gathers each block before it is used" if layout.sharding else "without sharding there is none"
        message = f"gather_overlap applies to the gather after an update, and {why}; give sharding: zero-1 or zero-2"
        return [Mistake(message, key=key, got="true", allowed="with sharding: zero-1 or zero-2")]
    if layout.offloads("optimizer"):
        message = "gather_overlap does not go with offload: a host's updated weights are gathered after the iteration"
        return [Mistake(message, key=key, got="true", allowed="false, or no offload of the optimizer")]
    return []


def _pass_gather_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why weights are not gathered anew in every micro-batch."""
    layout, got = point.parallelism, "micro-batch"
    if layout.gathers != got:
        return []
    if layout.sharding != "zero-2":
        sharding = f"sharding: {layout.sharding}" if layout.sharding else "no sharding"
        message = f"gathers: micro-batch is an option of sharding: zero-2, which shards gradients (got {sharding})"
        return [Mistake(message, key="gathers", got=got, allowed="with sharding: zero-2")]
    if layout.gather_overlap or layout.offloads("optimizer"):
        other = "gather_overlap" if layout.gather_overlap else "offload of the optimizer"
        message = f"{other} gathers weights after an update, and gathers: micro-batch before each pass; leave one out"
        return [Mistake(message, key="gathers", got=got, allowed=f"update, or no {other}")]
    return []


def _time_chunk_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why parts of sequences cannot go through the stages one after the other."""
    layout, mistakes = point.parallelism, []
    if layout.time_chunks == 1:
        return []
    got = str(layout.time_chunks)
    if point.grid.pipeline == 1:
        message = f"time_chunks needs several pipeline stages, and there is one (got {got}); give pipeline"
        mistakes.append(Mistake(message, key="time_chunks", got=got, allowed="1, or pipeline above 1"))
    if layout.schedule != "gpipe":
        message = (
            "with time_chunks the backward pass starts after the forward pass of the whole sequence, as in schedule "
            f"gpipe (got {layout.schedule})"
        )
        mistakes.append(Mistake(message, key="schedule", got=layout.schedule, allowed="gpipe, or no time_chunks"))
    return mistakes


def _mirror_mistakes(point: PointKeys) -> list[Mistake]:
    """Return what does not go with dualpipe, in which opposite stages have the same parameters."""
    layout, strategy, mistakes = point.parallelism, point.strategy.kind, []
    if not point.grid.mirrored:
        return []
    if not point.strategy.all_reduces_gradients:
        message = f"with dualpipe opposite stages all-reduce the gradients that both have (got strategy {strategy})"
        allowed = "strategy: all-reduce, or another schedule"
        mistakes.append(
            Mistake(
                f"{message}; take strategy all-reduce, or dualpipe-v", key="schedule", got="dualpipe", allowed=allowed
            )
        )
    if layout.offload != "none":
        message = "dualpipe is simulated without offload; leave offload out, or take another schedule"
        mistakes.append(Mistake(message, key="offload", got=layout.offload, allowed="none, or another schedule"))
    return mistakes


def _pipedream_mistakes(point: PointKeys) -> list[Mistake]:
    """Return what does not go with pipedream, in which every micro-batch is an update."""
    layout, strategy, mistakes = point.parallelism, point.strategy.kind, []
    if layout.schedule != "pipedream":
        return []
    if not point.strategy.all_reduces_gradients:
        message = (
            "with pipedream the copies of a stage all-reduce the gradients of every micro-batch "
            f"(got strategy {strategy}); take strategy all-reduce, or another schedule"
        )
        allowed = "strategy: all-reduce, or another schedule"
        mistakes.append(Mistake(message, key="schedule", got="pipedream", allowed=allowed))
    if layout.sharding is not None:
        message = "pipedream keeps several versions of the weights on each GPU, and sharding divides a single version"
        mistakes.append(Mistake(message, key="sharding", got=layout.sharding, allowed="none, or another schedule"))
    return mistakes
