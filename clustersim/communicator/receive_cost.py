"""What threads do beside with large messages: the part of their time that grows with the square of the size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.collectives import Step
from clustersim.topology import Topology


def with_receive_cost(
    steps: Sequence[Step], nodes: Sequence[int], topology: Topology
) -> tuple[list[list[Step]], list[int]]:
    """Return each of some steps with what its receivers' threads do with it, and the nodes of these threads.

    `nodes` [num_ranks] are those of the steps' ranks, and threads are the ranks behind them. A message of b bytes is
    another of b^2 / `half_rate_bytes` in the next step, from the thread that takes it in to its receiver: both cross
    the thread's link, so that it is busy for (b + b^2 / `half_rate_bytes`) / rate with them, and whatever else it
    takes in meanwhile shares it. A receiver goes on when all that it has been sent in a step has been taken in; senders
    do not wait for that. Such a message waits, as all do, for the transport's overhead before it begins.

    Nothing is added where all messages come in at one rate.
    """
    receiving = None if topology.processes is None else topology.processes.receiving
    if receiving is None:
        return [[step] for step in steps], []
    at, ranks = np.array(nodes), dict[int, int]()
    all_steps = []
    for step in steps:
        threads = receiving.nodes(at[step.src], at[step.dst])
        taken = np.flatnonzero(threads >= 0)
        src = [ranks.setdefault(thread, len(nodes) + len(ranks)) for thread in threads[taken].tolist()]
        num_bytes = step.num_bytes[taken] ** 2 / receiving.half_rate_bytes
        work = Step.of(src, step.dst[taken], num_bytes, step.chunk[taken], step.num_chunks[taken])
        all_steps.append([step, work] if len(taken) else [step])
    return all_steps, list(ranks)
