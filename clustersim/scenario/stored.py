"""Memory of a layout besides that of its stages: what the strategy stores, and buffers of exchanges with experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clustersim.parallelism import ModelLayout
from clustersim.parallelism.dispatch_buffers import stage_buffer_bytes
from clustersim.parallelism.experts import AXIS
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.point import Point
from clustersim.topology.placement import place


def with_stored(point: Point, laid_out: ModelLayout) -> ModelLayout:
    """Return the layout with what the GPUs of each stage store besides weights, gradients, state and activations.

    That is what a strategy with several replicas stores, and buffers for tokens on their way to experts.
    """
    each = point.strategy.stored_bytes_per_parameter if laid_out.num_replicas > 1 else 0.0
    memory, hosts = [], _hosts_of_experts(point, laid_out)
    for stage, (plan, held) in enumerate(zip(laid_out.plans, laid_out.memory, strict=True)):
        parameters = sum(bucket.num_bytes for bucket in plan.iteration.buckets) / point.gradient_bytes
        pieces = [piece for part in laid_out.parts_of(stage) for piece in part.pieces]
        more = {
            "outer step": parameters * each,
            "dispatch buffers": stage_buffer_bytes(pieces, *hosts, point.micro_batch),
        }
        memory.append(held | {name: size for name, size in more.items() if size})
    return with_memory(laid_out, memory)


def _hosts_of_experts(point: Point, laid_out: ModelLayout) -> tuple[int, int]:
    """Return the most hosts of a group that splits experts, and its most GPUs on one; an NVLink domain is one host."""
    if point.parallelism.expert_exchange != "two-hop" or laid_out.grid.expert == 1:
        return 1, laid_out.grid.expert
    topology = build_topology(point.topology)
    domains = topology.gpu_domains[place(point.placement, topology, point.num_gpus, point.seed)]
    counts = [np.unique(domains[group], return_counts=True)[1] for group in laid_out.grid.groups((AXIS,))]
    return max(map(len, counts)), max(int(each.max()) for each in counts)


def with_memory(laid_out: ModelLayout, memory: Sequence[dict[str, float]]) -> ModelLayout:
    """Return the layout with other bytes by purpose of each stage; what they have in addition is always there."""
    added = [sum(after.values()) - sum(held.values()) for after, held in zip(memory, laid_out.memory, strict=True)]
    lasting = [replace(held, constant=held.constant + more) for held, more in zip(laid_out.held, added, strict=False)]
    return replace(laid_out, memory=tuple(memory), held=tuple(lasting))
