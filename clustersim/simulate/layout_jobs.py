"""A job whose model copies span several GPUs: one job for each place in a copy, and their joint outcome."""

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
from clustersim.simulate.pipedream_updates import micro_batch_updates

_MOST_FIRSTS_WATCHED = 64
"""The most ranks that are recorded as the first of their stage."""

_NUM_WATCHED = 16
"""How many ranks are recorded, if stages are fewer."""


def jobs_of(
    job: Job,
    laid_out: ModelLayout,
    algorithm: str,
    new_network: Callable[[], Network] | None,
    folds: bool = True,
    detail: bool = True,
) -> tuple[list[Job], LayoutExecutor]:
    """Return a job for each place in a copy, and their executor.

    `job` has all ranks; those of a returned job are the ones at its place in all copies. A returned job exchanges the
    gradients of its part of the model; the ranks of the first one read samples. Shortcuts need `new_network`, which
    makes another network like the job's. With `folds`, ranks that do the same are simulated as one, and a rank that
    another one represents has no job. With `detail`, some ranks are recorded. If copies exchange gradients from GPU to
    GPU, it is known which ranks share links. Through host memory it is not, and each rank is simulated.
    """
    grid = laid_out.grid
    programs = [plan.program for plan in laid_out.plans]
    fold = timed = None
    is_among_gpus = not job.is_staged and algorithm not in IN_HOST_MEMORY["all-reduce"]
    if new_network is not None and is_among_gpus and not grid.tiled and not grid.mirrored and not laid_out.groups_apart:
        fold = folding(new_network, job.gpus, grid, programs, job.transport) if folds else None
        timed = None if fold else timed_programs(new_network, job.gpus, grid, programs, job.transport)
    watched = _watched(grid, fold is not None) if detail else []
    executed, timed_bytes = (programs, None) if timed is None else timed
    executor = LayoutExecutor(
        job.network, job.gpus, grid, executed, algorithm, job.transport, watched, timed_bytes, new_network is not None
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
    """Return how many iterations it takes until prefetch buffers are full and iterations have become periodic."""
    if job.input_stage is None:
        return laid_out.num_settling
    return max(laid_out.num_settling, -(-job.input_stage.prefetch // laid_out.plans[0].program.num_micro_batches))


def _job_of(job: Job, ranks: np.ndarray, plan: Iteration, work: RankWork, num_settling: int) -> Job:
    """Return the job of some of the ranks."""

    def slowdown(place: int, iteration: int) -> float:
        return job.slowdown(int(ranks[place]), iteration)

    return replace(
        job,
        gpus=job.gpus[ranks],
        plans=lambda place, iteration: plan,
        slowdown=slowdown,
        slowest=job.slowest[ranks],
        moved_s_per_byte=job.moved_s_per_byte[ranks],
        paces=None if job.paces is None else [job.paces[rank] for rank in ranks.tolist()],
        work=work,
        num_settling=num_settling,
        ranks=ranks,
    )


def _watched(grid: Grid, is_folded: bool) -> list[int]:
    """Return the ranks whose iterations are recorded: the first one of each stage, and more if none are folded."""
    firsts = [grid.in_stage(0, stage) for stage in range(grid.pipeline)][:_MOST_FIRSTS_WATCHED]
    if is_folded:
        return firsts
    others = [rank for rank in range(grid.num_ranks) if rank not in set(firsts)]
    return sorted([*firsts, *others[: max(0, _NUM_WATCHED - len(firsts))]])


def joint_outcome(jobs: Sequence[Job], laid_out: ModelLayout, executor: LayoutExecutor, gpus: np.ndarray) -> Outcome:
    """Return the outcome of all ranks together; `jobs` are those that were simulated."""
    carried = jobs[0].network.link_bytes + sum(gap.link_bytes for gap in executor.stage_programs.skipped)
    outcomes = _outcomes_by_place([outcome_of(job, carried) for job in jobs], laid_out, executor)
    order = np.argsort(np.concatenate(laid_out.replicas()), kind="stable")
    most = max(outcome.times.ready_s.shape[2] for outcome in outcomes)
    num_iterations = max(outcome.times.begin_s.shape[1] for outcome in outcomes)
    sheets = [
        _with_own_ranks(outcome.times.with_buckets(most).with_iterations(num_iterations), ranks)
        for outcome, ranks in zip(outcomes, laid_out.replicas(), strict=True)
    ]
    first, times = outcomes[0], Timesheet.of_ranks(sheets, order)
    leads = np.array([executor.simulated_rank(rank) for rank in range(len(gpus))])
    columns = (times.bubble_s, times.called_s, times.called_waiting_s, times.offload_s, times.slowed_s, times.host_s)
    for column in (times.forward_s, *columns):
        column[:] = column[leads]
    shortcuts = (*executor.shortcuts, *(each for outcome in outcomes for each in outcome.shortcuts))
    of_all = replace(
        first,
        times=times,
        updates_per_iteration=laid_out.updates_per_iteration,
        weights=_joined_columns([outcome.weights for outcome in outcomes], order),
        done=_joined_columns([outcome.done for outcome in outcomes], order),
        gpus=gpus,
        slowest=np.concatenate([outcome.slowest for outcome in outcomes])[order],
        pushed=np.concatenate([outcome.pushed for outcome in outcomes])[order],
        link_bytes=executor.all_link_bytes(first.link_bytes, jobs[0].times.num_begun),
        spans=_spans(executor, times, laid_out, jobs[0].num_warm_up if first.in_step else 0),
        shortcuts=tuple(dict.fromkeys(shortcuts)),
    )
    if not first.in_step:
        return _copies_as_workers(of_all, laid_out)
    updates = micro_batch_updates(executor, laid_out, jobs[0].num_warm_up, num_iterations)
    return of_all if updates is None else replace(of_all, updates=updates, gradients_per_update=len(gpus))


def _copies_as_workers(outcome: Outcome, laid_out: ModelLayout) -> Outcome:
    """Return an outcome in which each copy is one worker: the update log names the first rank of the copy."""
    firsts, updates = laid_out.replicas()[0], outcome.updates
    pushed = np.zeros(laid_out.grid.num_ranks, dtype=np.int64)
    pushed[firsts] = len(laid_out.replicas())
    worker = array("i", firsts[np.asarray(updates.worker, dtype=np.int64)].tolist())
    return replace(outcome, updates=replace(updates, worker=worker), pushed=pushed)


def _joined_columns(columns: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Return one column of all ranks [num_ranks, num_iterations], 0 where a rank has fewer iterations."""
    num = max(column.shape[1] for column in columns)
    padded = [np.pad(column, ((0, 0), (0, num - column.shape[1]))) for column in columns]
    column: np.ndarray = np.concatenate(padded)[order]
    return column


def _outcomes_by_place(outcomes: Sequence[Outcome], laid_out: ModelLayout, executor: LayoutExecutor) -> list[Outcome]:
    """Return the outcome of each place in a copy; a place that was not simulated has that of its representative."""
    firsts, simulated = [int(ranks[0]) for ranks in laid_out.replicas()], iter(outcomes)
    of = {first: next(simulated) for first in firsts if executor.exchanging_rank(first) == first}
    return [of[executor.exchanging_rank(first)] for first in firsts]


def copy_first_rank(times: Timesheet) -> None:
    """Copy the times of the first rank to all ranks of a job."""
    for column in fields(times):
        values = getattr(times, column.name)
        values[:] = values[:1]


def stages_kept_together(jobs: Sequence[Job], laid_out: ModelLayout) -> bool:
    """Return whether exchanges ended together and all ranks of a stage began and ended every iteration together."""
    sheets: dict[int, list[np.ndarray]] = {}
    for job in jobs:
        assert job.ranks is not None
        own = np.stack([job.times.begin_s[0], job.times.end_s[0]])
        sheets.setdefault(laid_out.grid.stage(int(job.ranks[0])), []).append(own)
    alike = (np.allclose(stage, stage[0], rtol=1e-11, atol=0.0, equal_nan=True) for stage in sheets.values())
    return all(job.stayed_in_sync for job in jobs) and all(alike)


def _with_own_ranks(times: Timesheet, ranks: np.ndarray) -> Timesheet:
    """Return a sheet in which `awaited_rank` holds numbers of `ranks` [num_ranks], not places within the job."""
    places = times.awaited_rank
    known = ~np.isnan(places)
    named = np.full_like(places, np.nan)
    named[known] = ranks[places[known].astype(np.int64)]
    return replace(times, awaited_rank=named)


def _spans(executor: LayoutExecutor, times: Timesheet, laid_out: ModelLayout, num_before: int) -> Spans:
    """Return the spans of recorded ranks in their latest iteration: programs, the exchange of gradients, the update.

    The timesheet begins after `num_before` iterations. It has no iteration that only some ranks have begun.
    """
    spans, origin_s = executor.recorder.spans()
    for rank, iteration in sorted(executor.recorder.recorded.items()):
        if iteration - num_before >= times.begin_s.shape[1]:
            continue
        buckets = laid_out.plans[laid_out.grid.stage(rank)].iteration.buckets
        add_exchange(spans, times, (rank, iteration - num_before), origin_s, [bucket.name for bucket in buckets])
    return spans
