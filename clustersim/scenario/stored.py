"""Memory of a layout besides that of its stages: what the strategy stores, and buffers of exchanges with experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.parallelism import ModelLayout
from clustersim.parallelism.dispatch_buffers import stage_buffer_bytes
from clustersim.scenario.point import Point


def with_stored(point: Point, laid_out: ModelLayout) -> ModelLayout:
    """Return the layout with what the GPUs of each stage store besides weights, gradients, state and activations.

    That is what a strategy with several replicas stores, and buffers for tokens on their way to experts.
    """
    each = point.strategy.stored_bytes_per_parameter if laid_out.num_replicas > 1 else 0.0
    memory = []
    for stage, (plan, held) in enumerate(zip(laid_out.plans, laid_out.memory, strict=True)):
        parameters = sum(bucket.num_bytes for bucket in plan.iteration.buckets) / point.gradient_bytes
        pieces = [piece for part in laid_out.parts_of(stage) for piece in part.pieces]
        more = {
            "outer step": parameters * each,
            "dispatch buffers": stage_buffer_bytes(pieces, laid_out.grid.expert, point.micro_batch),
        }
        memory.append(held | {name: size for name, size in more.items() if size})
    return with_memory(laid_out, memory)


def with_memory(laid_out: ModelLayout, memory: Sequence[dict[str, float]]) -> ModelLayout:
    """Return the layout with other bytes by purpose of each stage; what they have in addition is always there."""
    added = [sum(after.values()) - sum(held.values()) for after, held in zip(memory, laid_out.memory, strict=True)]
    lasting = [replace(held, constant=held.constant + more) for held, more in zip(laid_out.held, added, strict=False)]
    return replace(laid_out, memory=tuple(memory), held=tuple(lasting))
