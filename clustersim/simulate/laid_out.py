"""A job whose model is laid over several GPUs to a copy: who plays it, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clustersim.parallelism import Grid, LaidOut
from clustersim.program import Iteration
from clustersim.results import Timesheet
from clustersim.simulate.outcome import Outcome
from clustersim.strategies import Job
from clustersim.strategies.crew import Crew
from clustersim.strategies.job import Work

_MOST_WATCHED = 64


def jobs_of(job: Job, laid_out: LaidOut, algorithm: str) -> tuple[list[Job], Crew]:
    """Return a job for each place of a copy, whose ranks are those that stand there in every copy; and all their crew.

    `job` has all ranks; each of those returned exchanges the gradients of its part of the model.
    """
    grid = laid_out.grid
    watched = _watched(grid)
    crew = Crew(
        job.network,
        job.gpus,
        grid,
        [plan.program for plan in laid_out.plans],
        algorithm,
        job.transport.name,
        watched,
    )
    jobs = []
    for ranks in laid_out.replicas():
        plan = laid_out.plans[grid.stage(int(ranks[0]))].iteration
        jobs.append(_job_of(job, ranks, plan, partial(crew.work, ranks)))
    return jobs, crew


def _job_of(job: Job, ranks: np.ndarray, plan: Iteration, work: Work) -> Job:
    """Return the job of some ranks of all."""

    def slowdown(place: int, iteration: int) -> float:
        return job.slowdown(int(ranks[place]), iteration)

    return replace(
        job,
        gpus=job.gpus[ranks],
        plans=lambda place, iteration: plan,
        slowdown=slowdown,
        paces=None if job.paces is None else [job.paces[rank] for rank in ranks.tolist()],
        work=work,
    )


def _watched(grid: Grid) -> list[int]:
    """Return the ranks whose days are drawn: one of each stage, and others as far as there is room."""
    each = grid.num_ranks // grid.pipeline
    firsts = [stage * each for stage in range(grid.pipeline)][:_MOST_WATCHED]
    others = [rank for rank in range(grid.num_ranks) if rank not in set(firsts)]
    return sorted([*firsts, *others[: max(0, 16 - len(firsts))]])


def joined(outcomes: Sequence[Outcome], laid_out: LaidOut, crew: Crew, gpus: np.ndarray) -> Outcome:
    """Return the outcome of all ranks together, `outcomes` being those of the ranks at each place of a copy."""
    order = np.argsort(np.concatenate(laid_out.replicas()), kind="stable")
    most = max(outcome.times.ready_s.shape[2] for outcome in outcomes)
    sheets = [outcome.times.with_buckets(most) for outcome in outcomes]
    first = outcomes[0]
    return replace(
        first,
        times=Timesheet.of_ranks(sheets, order),
        weights=np.concatenate([outcome.weights for outcome in outcomes])[order],
        done=np.concatenate([outcome.done for outcome in outcomes])[order],
        gpus=gpus,
        pushed=np.concatenate([outcome.pushed for outcome in outcomes])[order],
        spans=crew.spans(),
        shortcuts=tuple(dict.fromkeys(each for outcome in outcomes for each in outcome.shortcuts)),
    )
