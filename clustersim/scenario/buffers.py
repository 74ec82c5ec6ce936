"""The memory of a point's GPUs for collectives and messages: buckets and communicators."""

from __future__ import annotations

import numpy as np

from clustersim.communicator.algorithm import NCCL, num_channels
from clustersim.hardware import load_transport
from clustersim.parallelism import AXES, Grid, Parallelism
from clustersim.program import Copies
from clustersim.program.exchange_buffers import NO_EXCHANGE_BUFFERS, ExchangeBuffers, exchange_buffers
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.point import Point
from clustersim.strategies import Strategy

_MOST_HOSTS = 2
"""NCCL's buffers do not grow with more hosts than this (NVIDIA/nccl, issue 864)."""


def point_buffers(point: Point) -> ExchangeBuffers:
    """Return the buffers of a GPU of a point for exchanges."""
    return layout_buffers(point, point.parallelism, point.grid, point.strategy, channels_of(point))


def layout_buffers(
    point: Point, layout: Parallelism, grid: Grid, strategy: Strategy, num_channels: int
) -> ExchangeBuffers:
    """Return the buffers of a GPU for exchanges in a layout; `num_channels` are NCCL's, 0 for another library.

    There is one communicator for each axis of the layout with several ranks, and one more if groups of copies shard
    their state.
    """
    if grid.num_ranks == 1:
        return NO_EXCHANGE_BUFFERS
    is_whole = layout.kind == "grid" and grid.data == grid.num_ranks and layout.offload == "none"
    copies = strategy.gradient_copies(is_whole) if layout.sharding is None else Copies()
    caps = strategy.bucket_caps(point.gradient_bytes, grid.num_replicas, layout.sliced)
    sums_tensors = layout.sharding is not None and layout.sharding_by == "tensors"
    groups = sum(getattr(grid, axis) > 1 for axis in AXES) + (grid.shard_group_size < grid.num_replicas)
    return exchange_buffers(copies, caps, sums_tensors, groups, num_channels)


def channels_of(point: Point) -> int:
    """Return NCCL's channels between the job's first GPUs, taken for all of them; 0 for other libraries."""
    if point.num_gpus == 1 or load_transport(point.transport).library not in NCCL:
        return 0
    topology = build_topology(point.topology)
    hosts = topology.gpu_hosts[: point.num_gpus]
    gpus = np.flatnonzero(np.isin(hosts, np.unique(hosts)[:_MOST_HOSTS]))
    return num_channels(topology, gpus) if len(gpus) > 1 else 0
