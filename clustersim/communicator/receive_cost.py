"""The cost of large messages in the threads that receive them, which grows with the square of the size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.collectives import Step
from clustersim.topology import Topology


def with_receive_cost(
    steps: Sequence[Step], nodes: Sequence[int], topology: Topology
) -> tuple[list[list[Step]], list[int]]:
    """Return each step with the work of its receivers' threads, and the nodes of these threads.

    `nodes` [num_ranks] are those of the ranks of the steps; the threads are the ranks behind them. A message of b bytes
    adds another one of b^2 / `half_rate_bytes` in the next step, from the thread that receives it to its receiver. Both
    cross the thread's link, so it is busy for (b + b^2 / `half_rate_bytes`) / rate with them, and other messages to it
    share the link meanwhile. A receiver goes on when all its messages of a step have been received; senders do not wait
    for that. The added message waits for the transport's overhead before it begins, as every message does.

    Nothing is added where all messages are received at the same rate.
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
