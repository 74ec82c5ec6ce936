"""Jobs that share a cluster: how each of them fares, beside the others and alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class JobRun:
    """One of several jobs on a cluster, which began `start_s` after the run.

    `iteration_s` is the mean time of one worker's cycle beside the other jobs, `alone_iteration_s` that of the same
    iterations, with the same luck and on the same GPUs, when nobody else is there; `slowdown` is their ratio. Recovery
    from failures is in neither.
    """

    name: str
    model: str
    num_gpus: int
    start_s: float
    iteration_s: float
    samples_per_s: float
    alone_iteration_s: float
    slowdown: float


def mean_jobs(replicates: Sequence[Sequence[JobRun]]) -> tuple[JobRun, ...]:
    """Return the jobs with the means of all replicates."""
    return tuple(
        replace(
            same[0],
            **{
                key: float(np.mean([getattr(job, key) for job in same]))
                for key in ("iteration_s", "samples_per_s", "alone_iteration_s", "slowdown")
            },
        )
        for same in zip(*replicates, strict=True)
    )
