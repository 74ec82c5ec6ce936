"""A job whose model is laid over several GPUs to a copy: who plays it, and what came of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np

from clustersim.collectives import IN_HOST_MEMORY
from clustersim.execution import Job
from clustersim.execution.folded_layout_executor import FoldedLayoutExecutor
from clustersim.execution.job import RankWork
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.network import Network
from clustersim.parallelism import Grid, ModelLayout
from clustersim.program import Iteration
from clustersim.results import Spans, Timesheet, add_exchange
from clustersim.shortcuts.folding import folding
from clustersim.shortcuts.timed_collectives import timed_programs
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.own_updates import own_updates

_MOST_WATCHED = 64


def jobs_of(
    job: Job,
    laid_out: ModelLayout,
    algorithm: str,
    again: Callable[[], Network] | None,
    folds: bool = True,
    detail: bool = True,
) -> tuple[list[Job], LayoutExecutor]:
    """Return a job for each place of a copy, whose ranks are those at that place in every copy; and their executor.

    `job` has all ranks; each of those returned exchanges the gradients of its part of the model, and the ranks of the
    first one read samples. Shortcuts are taken where `again` is given, which makes another network like the job's: with
    `folds`, ranks that do the same are played as one, and there is no job of those for whom others stand in. Some ranks
    are watched where `detail` is asked for. Who shares links is known where copies send what they exchange from GPU to
    GPU; by way of host memory, ranks are played each by itself.
    """
    grid = laid_out.grid
    programs = [plan.program for plan in laid_out.plans]
    fold = timed = None
    is_among_gpus = not job.is_staged and algorithm not in IN_HOST_MEMORY["all-reduce"]
    if again is not None and is_among_gpus and not grid.tiled:
        fold = folding(again, job.gpus, grid, programs, job.transport) if folds else None
        timed = None if fold else timed_programs(again, job.gpus, grid, programs, job.transport)
    watched = _watched(grid, fold is not None) if detail else []
    played, timed_bytes = (programs, None) if timed is None else timed
    executor = LayoutExecutor(
        job.network, job.gpus, grid, played, algorithm, job.transport, watched, timed_bytes, again is not None
    )
    if fold is not None:
        executor = FoldedLayoutExecutor(job.network, job.gpus, grid, algorithm, job.transport, watched, fold)
    jobs: list[Job] = []
    num_settling = _num_settling(job, laid_out)
    for ranks in laid_out.replicas():
        plan = laid_out.plans[grid.stage(int(ranks[0]))].iteration
        if executor.exchanging_rank(int(ranks[0])) == ranks[0]:
            own = _job_of(job, ranks, plan, partial(executor.work, ranks), num_settling)
            own.input_stage = None if jobs else job.input_stage
            own.is_folded = fold is not None
            jobs.append(own)
    return jobs, executor


def _num_settling(job: Job, laid_out: ModelLayout) -> int:
    """Return how many iterations it takes until as much is prefetched as can be, and ranks have found their pace."""
    if job.input_stage is None:
        return laid_out.num_settling
    return max(laid_out.num_settling, -(-job.input_stage.prefetch // laid_out.plans[0].program.num_micro_batches))


def _job_of(job: Job, ranks: np.ndarray, plan: Iteration, work: RankWork, num_settling: int) -> Job:
    """Return the job of some ranks of all."""

    def slowdown(place: int, iteration: int) -> float:
        return job.slowdown(int(ranks[place]), iteration)

    return replace(
        job,
        gpus=job.gpus[ranks],
        plans=lambda place, iteration: plan,
        slowdown=slowdown,
        slowest=job.slowest[ranks],
        paces=None if job.paces is None else [job.paces[rank] for rank in ranks.tolist()],
        work=work,
        num_settling=num_settling,
        ranks=ranks,
    )


def _watched(grid: Grid, is_folded: bool) -> list[int]:
    """Return the ranks whose days are drawn: one of each stage, and others as far as they play and there is room."""
    firsts = [grid.in_stage(0, stage) for stage in range(grid.pipeline)][:_MOST_WATCHED]
    if is_folded:
        return firsts
    others = [rank for rank in range(grid.num_ranks) if rank not in set(firsts)]
    return sorted([*firsts, *others[: max(0, 16 - len(firsts))]])


def joined(jobs: Sequence[Job], laid_out: ModelLayout, executor: LayoutExecutor, gpus: np.ndarray) -> Outcome:
    """Return the outcome of all ranks together, `jobs` being those that were played."""
    carried = jobs[0].network.link_bytes + sum(gap.link_bytes for gap in executor.stage_programs.skipped)
    outcomes = _of_every_place([outcome_of(job, carried) for job in jobs], laid_out, executor)
    order = np.argsort(np.concatenate(laid_out.replicas()), kind="stable")
    most = max(outcome.times.ready_s.shape[2] for outcome in outcomes)
    num_iterations = max(outcome.times.begin_s.shape[1] for outcome in outcomes)
    sheets = [
        _with_own_ranks(outcome.times.with_buckets(most).with_iterations(num_iterations), ranks)
        for outcome, ranks in zip(outcomes, laid_out.replicas(), strict=True)
    ]
    first, times = outcomes[0], Timesheet.of_ranks(sheets, order)
    leads = np.array([executor.simulated_rank(rank) for rank in range(len(gpus))])
    columns = (times.bubble_s, times.called_s, times.called_waiting_s, times.offload_s, times.slowed_s)
    for column in (times.forward_s, *columns):
        column[:] = column[leads]
    shortcuts = (*executor.shortcuts, *(each for outcome in outcomes for each in outcome.shortcuts))
    whole = replace(
        first,
        times=times,
        updates_per_iteration=laid_out.updates_per_iteration,
        weights=_of_ranks([outcome.weights for outcome in outcomes], order),
        done=_of_ranks([outcome.done for outcome in outcomes], order),
        gpus=gpus,
        slowest=np.concatenate([outcome.slowest for outcome in outcomes])[order],
        pushed=np.concatenate([outcome.pushed for outcome in outcomes])[order],
        link_bytes=executor.all_link_bytes(first.link_bytes, jobs[0].times.num_begun),
        spans=_spans(executor, times, laid_out, jobs[0].num_warm_up if first.in_step else 0),
        shortcuts=tuple(dict.fromkeys(shortcuts)),
    )
    if not first.in_step:
        return _of_copies(whole, laid_out)
    own = own_updates(executor, laid_out, jobs[0].num_warm_up, num_iterations)
    return whole if own is None else replace(whole, updates=own, gradients_per_update=len(gpus))


def _of_copies(outcome: Outcome, laid_out: ModelLayout) -> Outcome:
    """Return the outcome of copies that each are one worker: its gradients are those of its first rank in the log."""
    firsts, updates = laid_out.replicas()[0], outcome.updates
    pushed = np.zeros(laid_out.grid.num_ranks, dtype=np.int64)
    pushed[firsts] = len(laid_out.replicas())
    worker = array("i", firsts[np.asarray(updates.worker, dtype=np.int64)].tolist())
    return replace(outcome, updates=replace(updates, worker=worker), pushed=pushed)


def _of_ranks(columns: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Return one column of all ranks [num_ranks, num_iterations], zero where a rank has fewer iterations."""
    num = max(column.shape[1] for column in columns)
    padded = [np.pad(column, ((0, 0), (0, num - column.shape[1]))) for column in columns]
    joined_columns: np.ndarray = np.concatenate(padded)[order]
    return joined_columns


def _of_every_place(outcomes: Sequence[Outcome], laid_out: ModelLayout, executor: LayoutExecutor) -> list[Outcome]:
    """Return the outcome of the ranks at each place of a copy: where none was played, that of those who stand in."""
    firsts, played = [int(ranks[0]) for ranks in laid_out.replicas()], iter(outcomes)
    of = {first: next(played) for first in firsts if executor.exchanging_rank(first) == first}
    return [of[executor.exchanging_rank(first)] for first in firsts]


def note_for_all(times: Timesheet) -> None:
    """Note for every rank of a job what its first one did, who has played for all."""
    for column in fields(times):
        noted = getattr(times, column.name)
        noted[:] = noted[:1]


def kept_together(jobs: Sequence[Job], laid_out: ModelLayout) -> bool:
    """Say whether all ranks of a stage began and ended every iteration together, as ranks do that do the same."""
    sheets: dict[int, list[np.ndarray]] = {}
    for job in jobs:
        assert job.ranks is not None
        own = np.stack([job.times.begin_s[0], job.times.end_s[0]])
        sheets.setdefault(laid_out.grid.stage(int(job.ranks[0])), []).append(own)
    alike = (np.allclose(stage, stage[0], rtol=1e-11, atol=0.0, equal_nan=True) for stage in sheets.values())
    return all(job.stayed_in_sync for job in jobs) and all(alike)


def _with_own_ranks(times: Timesheet, ranks: np.ndarray) -> Timesheet:
    """Return a sheet that names the ranks that were awaited as all do, not by their places in a group [num_ranks]."""
    places = times.awaited_rank
    known = ~np.isnan(places)
    named = np.full_like(places, np.nan)
    named[known] = ranks[places[known].astype(np.int64)]
    return replace(times, awaited_rank=named)


def _spans(executor: LayoutExecutor, times: Timesheet, laid_out: ModelLayout, num_before: int) -> Spans:
    """Return what watched ranks did in their latest iteration: programs, the exchange of gradients, the update.

    The timesheet begins after `num_before` iterations, and ends before one that a rank has begun ahead of others.
    """
    spans, origin_s = executor.recorder.spans()
    for rank, iteration in sorted(executor.recorder.recorded.items()):
        if iteration - num_before >= times.begin_s.shape[1]:
            continue
        buckets = laid_out.plans[laid_out.grid.stage(rank)].iteration.buckets
        add_exchange(spans, times, (rank, iteration - num_before), origin_s, [bucket.name for bucket in buckets])
    return spans
