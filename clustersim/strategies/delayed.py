"""Delayed all-reduce: the gradient of an iteration is added up while the next one computes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Rendezvous
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.strategies.collective_strategy import CollectiveStrategy


class Delayed(CollectiveStrategy):
    """Each update applies the gradient of the iteration before, which is all-reduced meanwhile (Pipe-SGD).

    A worker sends all buckets of the last gradient when it begins an iteration, computes the next gradient, and waits
    for the sum before it updates. So communication hides behind a whole iteration, and every gradient is one version
    old (Li et al., "Pipe-SGD", NeurIPS 2018, with a pipeline of width 2).
    """

    kind: Literal["delayed"] = "delayed"
    overlap: Literal[True] = Field(
        default=True, description="the gradient of the last iteration is always exchanged while the next one computes"
    )

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Send the last gradient, compute the next one, wait for the sum of the last, update."""
        sender = BucketSender(job, rendezvous, rank, iteration)
        sender.send_all()
        yield from compute(job, rank, iteration)
        yield from sender.drain()
        yield from update(job, rank, iteration, gradient_of=iteration - 1)
