"""Delayed all-reduce: the gradient of an iteration is all-reduced while the next iteration computes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Rendezvous
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.strategies.collective_strategy import CollectiveStrategy


class Delayed(CollectiveStrategy):
    """Each update applies the gradient of the previous iteration, which is all-reduced meanwhile (Pipe-SGD).

    At the beginning of an iteration a worker sends all buckets of the previous gradient. It computes the next gradient,
    and waits for the all-reduced one before it updates. So a whole iteration hides communication, and every gradient
    is one version old (Li et al., "Pipe-SGD", NeurIPS 2018, with a pipeline of width 2).
    """

    kind: Literal["delayed"] = "delayed"
    overlap: Literal[True] = Field(
        default=True,
        description="the gradient of the previous iteration is always exchanged while the next one is computed",
    )

    def iterations_of(self, num_updates: int, num_workers: int) -> int:
        return num_updates + 1  # the first one has no gradient to apply

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Send the previous gradient, compute the next one, wait for the all-reduce, update."""
        sender = BucketSender(job, rendezvous, rank, iteration)
        sender.send_all()
        yield from compute(job, rank, iteration)
        yield from sender.drain()
        yield from update(job, rank, iteration, gradient_of=iteration - 1)
