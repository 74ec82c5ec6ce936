"""Times one collective on an idle cluster, size by size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.collectives import Schedule, busbw_factor
from clustersim.communicator.algorithm import schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.hardware import load_transport
from clustersim.hardware.sheet import Transport
from clustersim.network import Environment
from clustersim.simulate.build import build_network
from clustersim.topology import Node, Topology, load_topology, place
from clustersim.topology.placement import Block

COLLECTIVE_SCHEMA = "clustersim.collective/1"


def time_collective(
    op: str,
    topology: str | Topology | Mapping[str, Any],
    algorithm: str,
    num_gpus: int,
    sizes: Sequence[float],
    transport: str = "ideal",
    exact: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
    numba_from_messages: int | None = None,
) -> dict[str, Any]:
    """Time a collective on an idle cluster; return a `clustersim.collective/1` document.

    Ranks are the first GPUs of the cluster and enter together. As in nccl-tests, `algbw` is bytes over
    seconds, and `busbw` is `algbw` times the bytes that the busiest rank sends for each byte. With a transport that
    stages messages in host memory, the copies to it and from it count. `exact` turns every shortcut off. From
    `numba_from_messages` on, messages are simulated by compiled kernels (see `Network`).
    """
    cluster = load_topology(dict(topology) if isinstance(topology, Mapping) else topology)
    gpus = place(Block(), cluster, num_gpus, seed=0)
    library = load_transport(transport)
    rows = []
    for number, num_bytes in enumerate(sizes):
        sent = 0.0 if op == "barrier" else num_bytes  # a barrier carries no bytes, whatever the size
        name, schedule = schedule_collective(op, algorithm, cluster, gpus, sent, library.library)
        delay_s = pauses_s(schedule, cluster, gpus, library.library, op, algorithm)
        time_s = simulate_schedule(cluster, gpus, schedule, sent, library, exact, delay_s, numba_from_messages)
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
        on_progress((number + 1) / len(sizes))
    return {
        "schema": COLLECTIVE_SCHEMA,
        "collective": op,
        "algorithm": algorithm,
        "topology": cluster.name,
        "transport": transport,
        "num_gpus": num_gpus,
        "rows": rows,
    }


def simulate_schedule(
    cluster: Topology,
    gpus: np.ndarray,
    schedule: Schedule,
    num_bytes: float,
    library: Transport,
    exact: bool = False,
    delay_s: np.ndarray | None = None,
    numba_from_messages: int | None = None,
) -> float:
    """Return the seconds of a schedule among GPUs [num_ranks] of an idle cluster, from GPU memory to GPU memory.

    With a transport that stages messages in host memory, the copies to it and from it count.
    Rank i pauses `delay_s[i, step]` before a step.
    """
    env = Environment()
    network = build_network(env, cluster, library, exact, numba_from_messages)
    own = [Node(node) for node in cluster.gpus[gpus]]
    if library.buffers == "gpu":
        env.run(network.play(schedule, [*own, *extra_ranks(schedule, cluster, gpus)], delay_s=delay_s))
        return float(env.now)
    host = [Node(node) for node in cluster.memory[gpus]]
    for src, dst in ((own, host), (host, own)):
        copies = [network.transfer(*ends, num_bytes) for ends in zip(src, dst, strict=True)]
        env.run(simpy.AllOf(env, copies))
        if dst is host:
            env.run(network.play(schedule, host))
    return float(env.now)
