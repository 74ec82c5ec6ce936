"""Horovod's hierarchical all-reduce: NCCL within hosts, MPI between them, from host memory to host memory.

`NCCLHierarchicalAllreduce::Execute` in horovod/common/ops/nccl_operations.cc (commit 0246ec05; before 0.16 in
horovod/common/operations.cc): `ncclReduceScatter`, `cudaMemcpyAsync` to a buffer in host memory, `MPI_Allreduce` among
the processes with the same local rank, `cudaMemcpyAsync` back, `ncclAllGather`, one after another.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.hierarchical import Groups, Inside, RanksPerHost, between, hosts_of
from clustersim.collectives.ring import ring_all_reduce
from clustersim.collectives.schedule import Schedule, Step

HOROVOD = "horovod-hierarchical"
"""Its name in scenarios."""


def horovod_all_reduce(
    num_ranks: int, num_bytes: float, ranks_per_host: RanksPerHost = None, groups: Groups | None = None
) -> Schedule:
    """Schedule Horovod's hierarchical all-reduce; rank n + i is the host memory of rank i of n.

    The steps of `hierarchical`, whose part between hosts is from host memory to host memory, with a copy to host memory
    before it and one back after it: 2 (g - 1) + 2 + 2 (h - 1) steps for h hosts of g ranks. If hosts have unequal sizes
    one rank of each reduces the whole buffer (`is_homogeneous`). On one host it is a plain ring without host memories,
    since Horovod turns it off there (`size != local_size`).

    >>> horovod_all_reduce(4, 8.0, ranks_per_host=2).num_ranks, horovod_all_reduce(4, 8.0).num_ranks
    (8, 4)
    """
    hosts = hosts_of(num_ranks, ranks_per_host, groups)
    if len(hosts) <= 1:
        return ring_all_reduce(num_ranks, num_bytes)
    sizes = {*map(len, hosts)}
    largest, shards = max(sizes), sizes.pop() if len(sizes) == 1 else 1
    inside = Inside(hosts, shards, num_bytes)
    chunks, all_ranks = shards * len(hosts), 2 * num_ranks
    rank = np.concatenate([ranks[:shards] for ranks in hosts])
    first = np.tile(np.arange(shards) * len(hosts), len(hosts))
    down = Step.of(rank, num_ranks + rank, num_bytes / shards, first, len(hosts))
    up = Step.of(num_ranks + rank, rank, num_bytes / shards, first, len(hosts))
    parts = [
        Schedule(all_ranks, largest - 1, inside.reduce_scatter, chunks, inside.pattern),
        Schedule(all_ranks, 1, lambda step: down, chunks, lambda step: 0),
        between(all_ranks, [num_ranks + ranks for ranks in hosts], shards, num_bytes),
        Schedule(all_ranks, 1, lambda step: up, chunks, lambda step: 0),
        Schedule(all_ranks, largest - 1, inside.all_gather, chunks, inside.pattern),
    ]
    return Schedule.concatenate(parts)
