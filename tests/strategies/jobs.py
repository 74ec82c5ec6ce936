"""Small jobs of any strategy, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.execution import Job
from clustersim.hardware import load_transport
from clustersim.network import Network
from clustersim.program import plan_iteration
from clustersim.program.iteration import PlanIssue
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.strategies import Strategy
from clustersim.topology import load_topology

RATE = 1e9
HOP = 1e-6
MB = 1e6
INSTANT = {"link": "1000000000 GB/s", "hop": "0 s"}


def star(num_hosts: int, **host: Any):
    return load_topology({"kind": "star", "num_hosts": num_hosts, "link": "1 GB/s", "hop": "1 us", **host})


def play(
    strategy: Strategy,
    num_ranks: int,
    slowdown: np.ndarray | None = None,
    layers: Sequence[tuple[float, float, float]] = ((1.0, 2.0, 8 * MB), (1.0, 2.0, 8 * MB)),
    num_iterations: int = 1,
    update_s: float = 0.5,
    transport: str = "ideal",
    seed: int = 0,
    exact: bool = False,
    issue: PlanIssue | None = None,
    **cluster: Any,
) -> Job:
    """Run a job of `num_ranks` ranks; return it. `layers` are forward and backward seconds and gradient bytes.

    `slowdown` [num_ranks, any number] is repeated.
    """
    env = simpy.Environment()
    topology = star(cluster.pop("num_hosts", num_ranks), **cluster)
    forward, backward, sizes = zip(*layers, strict=True)
    plan = plan_iteration(
        [f"layer{i}" for i in range(len(layers))],
        forward,
        backward,
        sizes,
        update_s,
        strategy.bucket_caps(4.0, num_ranks, sharding=None),
        strategy.overlap,
        issue=issue,
    )
    library = load_transport(transport)

    job = Job(
        env=env,
        network=Network(env, topology, adds=library.adds, exact=exact),
        transport=library,
        gpus=np.arange(num_ranks),
        plans=lambda rank, iteration: plan,
        slowdown=lambda rank, iteration: (
            1.0 if slowdown is None else float(slowdown[rank][iteration % len(slowdown[rank])])
        ),
        update_bytes_per_byte=5.0,
        num_iterations=num_iterations,
        seed=seed,
    )
    env.run(strategy.start(job))
    return job


def result(strategy: Strategy, num_ranks: int, num_iterations: int, **options: Any) -> Outcome:
    """Run a job of `num_ranks` ranks; return the outcome of its measured part."""
    return outcome_of(play(strategy, num_ranks, num_iterations=num_iterations, **options))
