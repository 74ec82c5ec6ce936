"""What a point's GPUs hold for the exchanges between them, beside what they train."""

from __future__ import annotations

import numpy as np

from clustersim.communicator.algorithm import NCCL, num_channels
from clustersim.hardware import load_transport
from clustersim.parallelism import AXES, Grid, Parallelism
from clustersim.program import Copies
from clustersim.program.exchange_buffers import NOTHING_BESIDE, ExchangeBuffers, exchange_buffers
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.point import Point
from clustersim.strategies import Strategy

_MOST_HOSTS = 2
"""From these on NCCL holds no more for more of them (NVIDIA/nccl, issue 864)."""


def point_buffers(point: Point) -> ExchangeBuffers:
    """Return what a GPU of a point holds for exchanges."""
    return layout_buffers(point, point.parallelism, point.grid, point.strategy, channels_of(point))


def layout_buffers(
    point: Point, layout: Parallelism, grid: Grid, strategy: Strategy, num_channels: int
) -> ExchangeBuffers:
    """Return what a GPU of a point holds for exchanges in some layout; NCCL has `num_channels`, 0 another library.

    There is a communicator for each axis of the layout along which there are several ranks, and one more where copies
    share out what they have in groups.
    """
    if grid.num_ranks == 1:
        return NOTHING_BESIDE
    is_whole = layout.kind == "grid" and grid.data == grid.num_ranks and layout.offload == "none"
    copies = strategy.gradient_copies(is_whole) if layout.sharding is None else Copies()
    caps = strategy.bucket_caps(point.gradient_bytes, grid.num_replicas, layout.sliced)
    sums_tensors = layout.sharding is not None and layout.sharding_by == "tensors"
    groups = sum(getattr(grid, axis) > 1 for axis in AXES) + (grid.num_sharers < grid.num_replicas)
    return exchange_buffers(copies, caps, sums_tensors, groups, num_channels)


def channels_of(point: Point) -> int:
    """Return NCCL's channels among the first GPUs, which stand for all that a job may have; 0 of other libraries."""
    if point.num_gpus == 1 or load_transport(point.transport).library not in NCCL:
        return 0
    topology = build_topology(point.topology)
    hosts = topology.gpu_hosts[: point.num_gpus]
    gpus = np.flatnonzero(np.isin(hosts, np.unique(hosts)[:_MOST_HOSTS]))
    return num_channels(topology, gpus) if len(gpus) > 1 else 0
