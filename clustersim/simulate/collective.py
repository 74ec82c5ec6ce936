"""How long one collective takes on a cluster, size by size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.collectives import COLLECTIVES, Schedule, busbw_factor, choose
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.network import Network
from clustersim.strategies.all_reduce import group_sizes
from clustersim.topology import Node, Topology, load_topology, place

COLLECTIVE_SCHEMA = "clustersim.collective/1"


def time_collective(
    op: str,
    topology: str | Topology | Mapping[str, Any],
    algorithm: str,
    num_gpus: int,
    sizes: Sequence[float],
    transport: str = "ideal",
    tell: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Time a collective on an idle cluster; return a `clustersim.collective/1` document.

    Ranks are the first GPUs of the cluster and enter together. As in nccl-tests, `algbw` is bytes over
    seconds, and `busbw` is `algbw` times what the busiest rank sends for each byte. With a transport that
    stages in host memory, the copies out and in count.
    """
    cluster = topology if isinstance(topology, Topology) else load_topology(topology)
    gpus = place("block", cluster, num_gpus, 0)
    groups = group_sizes(cluster.gpu_hosts[gpus].tolist())
    library = load_transport(transport)
    rows = []
    for number, num_bytes in enumerate(sizes):
        name = choose(op, transport, num_gpus, num_bytes, max(groups)) if algorithm == "auto" else algorithm
        options: dict[str, Any] = {"ranks_per_host": groups} if name == "hierarchical" else {}
        if name == "torus-ring" and cluster.torus_dims is not None:
            options["dims"] = _whole_torus(cluster, num_gpus)
        schedule = COLLECTIVES[op][name](num_gpus, num_bytes, **options)
        time_s = _play(
            cluster,
            gpus,
            schedule,
            num_bytes,
            library.buffers == "host",
            {"overhead_s": library.overhead_s, "efficiency": library.efficiency, "adds": library.adds},
        )
        algbw = num_bytes / time_s if time_s > 0 else None
        rows.append(
            {
                "num_bytes": num_bytes,
                "time_s": time_s,
                "algbw_bytes_per_s": algbw,
                "busbw_bytes_per_s": None if algbw is None else algbw * busbw_factor(op, num_gpus),
                "algorithm": name,
            }
        )
        tell((number + 1) / len(sizes))
    return {
        "schema": COLLECTIVE_SCHEMA,
        "collective": op,
        "algorithm": algorithm,
        "topology": cluster.name,
        "transport": transport,
        "num_gpus": num_gpus,
        "rows": rows,
    }


def _whole_torus(cluster: Topology, num_gpus: int) -> tuple[int, ...]:
    """Return the ranks along each dimension; only the whole torus, a GPU a router, has its rings in rank order."""
    dims = cluster.torus_dims or ()
    if int(np.prod(dims)) != num_gpus:
        shown = " x ".join(str(extent) for extent in dims)
        raise InputError(
            f"torus-ring runs over the whole torus, one GPU a router; '{cluster.name}' is {shown} (got {num_gpus} GPUs)",
            got=str(num_gpus),
            allowed=str(int(np.prod(dims))),
        )
    return dims


def _play(
    cluster: Topology, gpus: np.ndarray, schedule: Schedule, num_bytes: float, staged: bool, costs: dict[str, Any]
) -> float:
    env = simpy.Environment()
    network = Network(env, cluster, **costs)
    own: list[Hashable] = [Node(node) for node in cluster.gpus[gpus]]
    host: list[Hashable] = [Node(node) for node in cluster.memory[gpus]]
    if staged:
        for copy in [network.transfer(*ends, num_bytes) for ends in zip(own, host, strict=True)]:
            env.run(copy)
    env.run(network.play(schedule, host if staged else own))
    if staged:
        for copy in [network.transfer(*ends, num_bytes) for ends in zip(host, own, strict=True)]:
            env.run(copy)
    return float(env.now)
