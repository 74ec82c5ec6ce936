"""When all further iterations of a job are proved to be the same as the last one that was simulated.

Where workers wait for all gradients, no message is in flight between two iterations. What follows then depends only on
the differences between the times at which ranks begin. If ranks end with the same differences, the next iteration is
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clustersim.parallelism import ModelLayout
from clustersim.program.ops import Call, Compute, Program, Receive
from clustersim.results import Timesheet

if TYPE_CHECKING:
    from clustersim.execution import Job

NO_WARM_UP = "Simulated no warm-up iteration: the second iteration is the same as the first."
_SAME = 1e-12


class IdenticalIterations(NamedTuple):
    """The proof: every further iteration takes `period_s`; `note` is the sentence about it in the result."""

    period_s: float
    note: str


def identical_iterations(
    jobs: Sequence[Job], laid_out: ModelLayout | None, num_iterations: int, sheets: Sequence[Timesheet] | None = None
) -> IdenticalIterations | None:
    """Return the proof that every iteration after the last one of some ended jobs is the same; None without it.

    `jobs` are all that share the network. `sheets` replace their own times, if given. Nothing may be random. Before the
    first iteration, in which all ranks begin at once, no message is in flight.
    """
    sheets = sheets or [job.times for job in jobs]
    last = min(times.num_begun for times in sheets) - 1
    cycles_s = np.concatenate([times.end_s[:, last] - times.begin_s[:, last] for times in sheets])
    found_s = float(cycles_s[0])
    if not np.allclose(cycles_s, found_s, rtol=_SAME, atol=0.0):
        return None
    first_s = min(_first_send_s(job, times, last, laid_out) for job, times in zip(jobs, sheets, strict=True))
    before_s = max(_idle_from_s(times, last - 1) for times in sheets) if last else -np.inf
    after_s = max(_idle_from_s(times, last) for times in sheets)
    if before_s > first_s or after_s > first_s + found_s:
        return None
    return IdenticalIterations(found_s, f"Simulated 1 of {num_iterations} identical iterations.")


def second_like_the_first(
    jobs: Sequence[Job], firsts: Sequence[Timesheet], laid_out: ModelLayout | None
) -> list[Timesheet] | None:
    """Return the second iteration of jobs, if it and all others are the same as the first; else None.

    All ranks begin the first iteration at once, and the second one too if they end together. A rank that begins by
    waiting for a message may end earlier: then it only waits longer.
    """
    cycle_s = max(float(times.end_s.max()) for times in firsts)
    found = []
    for job, times in zip(jobs, firsts, strict=True):
        early_s = cycle_s - times.end_s
        later = replace(times.delayed([-np.inf], [cycle_s]), begin_s=times.end_s)
        if _begins_by_waiting(job, laid_out):
            if ((early_s > _SAME * cycle_s) & (times.host_s > 0)).any():
                return None  # its host is ahead by more in the second iteration
            later = replace(later, bubble_s=times.bubble_s + early_s)
        elif not (early_s <= _SAME * cycle_s).all():
            return None
        found.append(later)
    return found if identical_iterations(jobs, laid_out, 1, found) is not None else None


def _begins_by_waiting(job: Job, laid_out: ModelLayout | None) -> bool:
    """Return whether the ranks of a job begin by waiting for a message of another pipeline stage."""
    if laid_out is None or job.ranks is None or laid_out.grid.tiled:
        return False
    program = laid_out.plans[laid_out.grid.stage(int(job.ranks[0]))].program
    return isinstance(next(program.ops(), None), Receive)


def may_begin_idle(laid_out: ModelLayout | None) -> bool:
    """Return whether, by their programs, iterations may begin with no message in flight.

    If ranks begin by sending, all of them must begin at once. They do not if the collective has a root, which ends
    before other ranks do.
    """
    if laid_out is None:
        return True
    programs = [plan.program for plan in laid_out.plans]
    has_root = any(isinstance(op, Call) and op.has_root for program in programs for op in program.distinct())
    return not has_root or all(_alone_s(program) > 0 for program in programs)


def _idle_from_s(times: Timesheet, iteration: int) -> float:
    """Return when the last message of an iteration has reached the rank that waits for it."""
    return float(np.fmax(times.exchanged_s[:, iteration], times.computed_s[:, iteration]).max())


def _first_send_s(job: Job, times: Timesheet, iteration: int, laid_out: ModelLayout | None) -> float:
    """Return a time before which no rank of a job sends a message of an iteration."""
    if laid_out is None or job.ranks is None:
        return float(np.nanmin(times.ready_s[:, iteration], initial=np.inf))
    alone_s = _alone_s(laid_out.plans[laid_out.grid.stage(int(job.ranks[0]))].program)
    slowdowns = np.array([job.slowdown(place, iteration) for place in range(job.num_ranks)])
    sends_s = float(np.nanmin(times.ready_s[:, iteration], initial=np.inf))
    return min(sends_s, float((times.begin_s[:, iteration] + alone_s * slowdowns).min()))


def _alone_s(program: Program) -> float:
    """Return how long a rank computes before it sends a message; infinity if it waits for a message first."""
    seconds = 0.0
    for op in program.ops():
        if isinstance(op, Receive):
            return np.inf
        if not isinstance(op, Compute):
            break
        seconds += op.seconds
    return seconds
