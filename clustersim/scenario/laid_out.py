"""Why a model cannot be laid over the GPUs as a scenario says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clustersim.errors import InputError, Mistake
from clustersim.parallelism.gradient_kernels import DEEPSPEED_ZERO, MEGATRON_LLAMA
from clustersim.parallelism.schedules import SCHEDULES
from clustersim.scenario.beside_layout import beside_layout_mistakes
from clustersim.scenario.offloaded import offload_mistakes

if TYPE_CHECKING:
    from clustersim.scenario.point import Point

_STRATEGIES_IN_STEP = ("all-reduce", "server")
_IN_STEP_BY = {
    "one-weird-trick": "fully connected layers that all GPUs compute",
    "local-fields": "tiles that exchange their borders",
    "paths": "paths that join again",
}
"""Why the GPUs of a kind of layout cannot go on without each other."""


def layout_mistakes(point: Point) -> list[Mistake]:
    """Return why the model cannot be laid over the GPUs as the scenario says."""
    try:
        if not point.is_plain:
            return [replace(each, key=f"parallelism.{each.key}") for each in _laid_out_mistakes(point)]
    except InputError as error:
        return [replace(mistake, key=f"parallelism.{mistake.key}") for mistake in error.mistakes]
    return []


def _laid_out_mistakes(point: Point) -> list[Mistake]:
    """Return why a layout of several GPUs to a copy cannot be; raise InputError where its numbers do not divide."""
    layout, grid = point.parallelism, point.grid
    assert point.micro_batch
    for stage in range(grid.pipeline):
        SCHEDULES[layout.schedule](stage, grid.pipeline, layout.num_passes, layout.chunks)
    mistakes = []
    if layout.chunks > 1 and grid.pipeline == 1:
        message = f"{layout.chunks} chunks on each stage, and there is one stage; give pipeline as well"
        mistakes.append(Mistake(message, key="chunks", got=str(layout.chunks), allowed="1, or pipeline above 1"))
    if layout.sequence_parallel and grid.tensor == 1:
        message = "sequence_parallel splits what lies between split layers, and tensor is 1; give tensor as well"
        mistakes.append(Mistake(message, key="sequence_parallel", got="true", allowed="with tensor above 1"))
    if layout.handed == "whole" and (layout.sequence_parallel or layout.kind != "grid"):
        other = (
            "sequence_parallel has a share on each GPU" if layout.sequence_parallel else f"{layout.kind} has no stages"
        )
        message = f"handed: whole is for stages whose GPUs all have what is handed over, and {other}; drop one"
        mistakes.append(Mistake(message, key="handed", got="whole", allowed="in-shares"))
    if layout.sequence_parallel and layout.input_sums == "each":
        message = "input_sums: each is an all-reduce for each matrix, which sequence_parallel scatters once; drop one"
        mistakes.append(Mistake(message, key="input_sums", got="each", allowed="joined"))
    if layout.tensor_overlap and (grid.tensor == 1 or not layout.sequence_parallel):
        missing = "tensor above 1" if grid.tensor == 1 else "sequence_parallel: true"
        message = f"tensor_overlap sends tokens that GPUs have some each of; give {missing} as well"
        mistakes.append(Mistake(message, key="tensor_overlap", got="true", allowed=f"with {missing}"))
    mistakes += [*_gather_mistakes(point), *_pass_gather_mistakes(point)]
    mistakes += _sharding_mistakes(point)
    if layout.sharding is not None and point.strategy.kind != "all-reduce":
        message = (
            "copies that share out what they have meet by reduce-scatters and all-gathers, as strategy all-reduce "
            f"lets them (got strategy {point.strategy.kind}); take that, or no sharding"
        )
        mistakes.append(Mistake(message, key="sharding", got=layout.sharding, allowed="strategy: all-reduce"))
    if layout.kind != "grid" and point.strategy.kind not in _STRATEGIES_IN_STEP:
        message = f"{_IN_STEP_BY[layout.kind]} keep them in step (strategy is {point.strategy.kind})"
        allowed = " or ".join(f"strategy: {kind}" for kind in _STRATEGIES_IN_STEP)
        mistakes.append(Mistake(message, key="kind", got=layout.kind, allowed=allowed))
    return [
        *mistakes,
        *_kernel_mistakes(point),
        *_pipedream_mistakes(point),
        *_time_chunk_mistakes(point),
        *beside_layout_mistakes(point),
        *offload_mistakes(point),
    ]


def _sharding_mistakes(point: Point) -> list[Mistake]:
    """Return why what copies have is not shared out among some of them, or tensor by tensor."""
    layout, mistakes = point.parallelism, []
    over, by = layout.sharding_over, layout.sharding_by
    if over is not None and layout.sharding is None:
        message = "sharding_over says how many copies share out what they have; say with sharding what that is"
        mistakes.append(Mistake(message, key="sharding_over", got=str(over), allowed="with sharding"))
    if by == "tensors" and layout.sharding != "zero-1":
        why = f"{layout.sharding} cuts gradients into slices" if layout.sharding else "copies have all of it"
        message = f"sharding_by: tensors is who has the state of which tensor for the optimizer, and {why}"
        mistakes.append(Mistake(message, key="sharding_by", got=by, allowed="with sharding: zero-1"))
    flat = ("zero-2", "zero-3")
    shared = {"flat": flat, "flat-padded": flat, "parameters": ("zero-3",)}
    if (copies := layout.sharding_copies) != "none" and layout.sharding not in shared[copies]:
        message = f"sharding_copies: {copies} is what is copied around what copies share out, and they have that whole"
        allowed = f"with sharding: {' or '.join(shared[copies])}"
        mistakes.append(Mistake(message, key="sharding_copies", got=copies, allowed=allowed))
    if layout.joined_sums is not None and (over is None or layout.sharding not in ("zero-2", "zero-3")):
        message = "joined_sums is how groups that share gradients out add up the shares of blocks; say how many are one"
        allowed = "with sharding_over, and sharding: zero-2 or zero-3"
        mistakes.append(Mistake(message, key="joined_sums", got=f"{layout.joined_sums:g} B", allowed=allowed))
    given = {"sharding_over": str(over)} if over is not None else {}
    given |= {"sharding_by": by} if by != "slices" else {}
    for key, got in given.items():
        for other, why in _apart_from(point):
            message = f"{key} does not go with {other}: {why}; leave one of the two out"
            mistakes.append(Mistake(message, key=key, got=got, allowed=f"no {key}, or no {other}"))
    return mistakes


def _kernel_mistakes(point: Point) -> list[Mistake]:
    """Return why no GPU keeps the gradients that kernels would sum over micro-batches."""
    layout, kernels = point.parallelism, point.parallelism.gradient_kernels
    if kernels == MEGATRON_LLAMA and layout.sharding != "zero-2":
        message = f"gradient_kernels: {kernels} moves gradients behind every micro-batch into slices (sharding: zero-2)"
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
        f"strategy {point.strategy.kind}": point.strategy.kind != "all-reduce",
    }
    return [
        Mistake(
            f"gradient_kernels: {kernels} moves sums that every GPU keeps of all its gradients until an all-reduce, "
            f"which with {other} it does not; leave gradient_kernels out",
            key="gradient_kernels",
            got=kernels,
            allowed=f"none, or without {other}",
        )
        for other, is_given in beside.items()
        if is_given and kernels != "none"
    ]


def _apart_from(point: Point) -> list[tuple[str, str]]:
    """Return beside what copies share out equal slices among all of them alone, and why."""
    beside = []
    if point.grid.expert > 1:
        beside.append(("expert", "experts are shared out among all who have the same ones"))
    if point.parallelism.offloads("optimizer"):
        beside.append(("offload", "a host updates an equal slice of everything"))
    return beside


def _gather_mistakes(point: Point) -> list[Mistake]:
    """Return why no updated weights are gathered that passes forward could go beside."""
    layout, key = point.parallelism, "gather_overlap"
    if not layout.gather_overlap:
        return []
    if layout.sharding not in ("zero-1", "zero-2"):
        why = "zero-3 gathers the weights of a block as it is needed" if layout.sharding else "copies have them whole"
        message = f"gather_overlap is how copies gather what each of them has updated, and {why}"
        return [Mistake(message, key=key, got="true", allowed="with sharding: zero-1 or zero-2")]
    if layout.offloads("optimizer"):
        message = "gather_overlap: what a host has updated is gathered as it comes back, at the end of an iteration"
        return [Mistake(message, key=key, got="true", allowed="false, or no offload of the optimizer")]
    return []


def _pass_gather_mistakes(point: Point) -> list[Mistake]:
    """Return why no micro-batch gathers weights that the one before it has freed."""
    layout, got = point.parallelism, "micro-batch"
    if layout.gathers != got:
        return []
    if layout.sharding != "zero-2":
        message = "gathers: micro-batch is how copies that share gradients out, and weights between passes, have these"
        return [Mistake(message, key="gathers", got=got, allowed="with sharding: zero-2")]
    if layout.gather_overlap or layout.offloads("optimizer"):
        other = "gather_overlap" if layout.gather_overlap else "offload of the optimizer"
        message = f"{other} gathers weights behind an update, which gathers: micro-batch does not; leave one out"
        return [Mistake(message, key="gathers", got=got, allowed=f"update, or no {other}")]
    return []


def _time_chunk_mistakes(point: Point) -> list[Mistake]:
    """Return why parts of sequences cannot follow each other through the stages."""
    layout, mistakes = point.parallelism, []
    if layout.time_chunks == 1:
        return []
    got = str(layout.time_chunks)
    if point.grid.pipeline == 1:
        message = f"{got} parts of each sequence follow each other through stages, and there is one; give pipeline"
        mistakes.append(Mistake(message, key="time_chunks", got=got, allowed="1, or pipeline above 1"))
    if layout.schedule != "gpipe":
        message = (
            "recurrent layers go backward from the end of a sequence, when all of it has been forward; that is "
            f"schedule gpipe (got {layout.schedule})"
        )
        mistakes.append(Mistake(message, key="schedule", got=layout.schedule, allowed="gpipe, or no time_chunks"))
    return mistakes


def _pipedream_mistakes(point: Point) -> list[Mistake]:
    """Return what cannot be where every micro-batch is an update of its own."""
    layout, strategy, mistakes = point.parallelism, point.strategy.kind, []
    if layout.schedule != "pipedream":
        return []
    if strategy != "all-reduce":
        message = (
            "copies of a stage add up the gradients of every micro-batch by an all-reduce (got strategy "
            f"{strategy}); take strategy all-reduce, or another schedule"
        )
        allowed = "strategy: all-reduce, or another schedule"
        mistakes.append(Mistake(message, key="schedule", got="pipedream", allowed=allowed))
    if layout.sharding is not None:
        message = "pipedream stashes several versions of the weights on each GPU, and copies share out a single one"
        mistakes.append(Mistake(message, key="sharding", got=layout.sharding, allowed="none, or another schedule"))
    return mistakes
