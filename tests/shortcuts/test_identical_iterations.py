"""When one iteration stands for all that follow it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.program.ops import FORWARD, Call, Compute, Key, Op, Program, Receive
from clustersim.results import Timesheet
from clustersim.shortcuts.identical_iterations import (
    NO_WARM_UP,
    identical_iterations,
    may_begin_idle,
    second_like_the_first,
)
from tests.simulate.shortcut_checks import check_is_exact


def job(begin_s: list[float], cycle_s: list[float], ready_s: float, idle_s: float) -> SimpleNamespace:
    """Two iterations of some ranks: what each begins and how long its second one takes; times are since it began."""
    times = Timesheet.blank(len(begin_s), 2, 1)
    times.begin_s[:, 0] = 0.0
    times.begin_s[:, 1] = times.end_s[:, 0] = begin_s
    times.end_s[:, 1] = times.begin_s[:, 1] + cycle_s
    times.ready_s[:, :, 0] = times.begin_s + ready_s
    times.computed_s[:] = times.exchanged_s[:] = times.end_s.min(axis=0) + idle_s
    return SimpleNamespace(times=times, num_ranks=len(begin_s), slowdown=lambda rank, iteration: 1.0)


def period_s(jobs: list[SimpleNamespace]) -> float | None:
    proof = identical_iterations(jobs, None, 2)
    return None if proof is None else proof.period_s


def test_ranks_that_end_as_far_apart_as_they_began_do_so_again() -> None:
    assert period_s([job([4.0, 4.5], [5.0, 5.0], ready_s=1.0, idle_s=0.0)]) == 5.0


def test_ranks_that_end_farther_apart_than_they_began_do_not() -> None:
    assert period_s([job([4.0, 4.5], [5.0, 5.1], ready_s=1.0, idle_s=0.0)]) is None


def test_an_iteration_that_begins_to_send_before_the_one_before_is_done_stands_for_no_other() -> None:
    assert period_s([job([4.0, 4.5], [5.0, 5.0], ready_s=1.0, idle_s=1.2)]) is None


def first(end_s: list[float], idle_s: float, stage: int = 0) -> SimpleNamespace:
    """The first iteration of ranks that begin it at once, and when nothing of it is on its way any more."""
    times = Timesheet.blank(len(end_s), 1, 1)
    times.begin_s[:, 0], times.end_s[:, 0], times.ready_s[:, 0, 0] = 0.0, end_s, 1.0
    times.computed_s[:] = times.exchanged_s[:] = idle_s
    return SimpleNamespace(
        times=times, num_ranks=len(end_s), slowdown=lambda rank, iteration: 1.0, ranks=np.full(len(end_s), stage)
    )


def second(*jobs: SimpleNamespace, laid_out: SimpleNamespace | None = None) -> list[Timesheet] | None:
    return second_like_the_first(jobs, [job.times for job in jobs], laid_out)


def test_a_first_iteration_that_ranks_end_together_comes_again() -> None:
    found = second(first([5.0, 5.0], 5.0), first([5.0, 5.0], 4.0))
    assert found is not None
    assert [(times.begin_s[0, 0], times.ready_s[0, 0, 0], times.end_s[0, 0]) for times in found] == [(5, 6, 10)] * 2


@pytest.mark.parametrize(("end_s", "idle_s"), [([5.0, 5.5], 5.0), ([5.0, 5.0], 6.5)])
def test_a_first_iteration_that_ends_apart_or_with_something_on_its_way_does_not(
    end_s: list[float], idle_s: float
) -> None:
    assert second(first(end_s, idle_s)) is None


COMPUTES = Compute("layer", 1.0, FORWARD, 0)
RECEIVES = Receive(Key("activations", 0, 0), 0, 8.0)


@pytest.mark.parametrize(("begins_by", "comes_again"), [(RECEIVES, True), (COMPUTES, False)])
@pytest.mark.parametrize("tiled", [False, True])
def test_a_stage_that_begins_by_waiting_may_end_the_first_iteration_early(
    begins_by: Op, comes_again: bool, tiled: bool
) -> None:
    programs = [Program(0, (COMPUTES,)), Program(1, (begins_by, COMPUTES))]
    grid = SimpleNamespace(stage=lambda rank: rank, tiled=tiled)
    laid_out = SimpleNamespace(plans=[SimpleNamespace(program=program) for program in programs], grid=grid)
    found = second(first([5.0], 5.0, 0), first([4.0], 4.0, 1), laid_out=laid_out)
    assert (found is not None) == (comes_again and not tiled)
    if found is not None:
        assert [(times.begin_s[0, 0], times.end_s[0, 0], times.bubble_s[0, 0]) for times in found] == [
            (5.0, 10.0, 0.0),
            (4.0, 9.0, 1.0),
        ]


@pytest.mark.parametrize(
    ("op", "computes_first", "is_alone"),
    [("broadcast", False, False), ("broadcast", True, True), ("all-gather", False, True)],
)
def test_iterations_that_begin_with_what_has_a_root_are_never_alone(
    op: str, computes_first: bool, is_alone: bool
) -> None:
    ops: list[Op] = [Call(Key("weights", 0, 0), op, "replicas", 8.0), Compute("layer", 1.0, FORWARD, 0)]
    program = Program(0, tuple(reversed(ops) if computes_first else ops))
    assert may_begin_idle(SimpleNamespace(plans=[SimpleNamespace(program=program)])) is is_alone


@pytest.mark.parametrize("kind", ["all-reduce", "server"])
def test_one_iteration_in_which_ranks_leave_at_different_times_is_the_one_that_repeats(kind: str) -> None:
    """Of a tree, or of servers that serve one after the other, the ranks go on one by one."""
    asked = {
        "model": "squeezenet-1.0",
        "num_gpus": 6,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": 9, "host": {"gpu": "v100"}, "link": "10 Gbit/s", "hop": "1 us"},
        "software": "plain",
        "strategy": {"kind": kind, **({"algorithm": "tree"} if kind == "all-reduce" else {"servers": {"num": 3}})},
        "stragglers": [{"kind": "constant", "factor": 1.1, "of": [4]}],
        "num_iterations": 9,
    }
    quick, exact = clustersim.sweep(asked), clustersim.sweep(asked, exact=True)
    assert any("Simulated 1 of 9" in shortcut for shortcut in quick.shortcuts)
    assert quick.runs[0].iterations_s == pytest.approx(exact.runs[0].iterations_s, rel=1e-9)
    assert quick.runs[0].breakdown_s == pytest.approx(exact.runs[0].breakdown_s, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("strategy", "slow", "is_first"),
    [
        ({"kind": "all-reduce", "algorithm": "ring"}, False, True),
        ({"kind": "all-reduce", "algorithm": "ring"}, True, False),  # the slow one's neighbours go on first
        ({"kind": "all-reduce", "algorithm": "tree"}, False, False),
        ({"kind": "server", "servers": {"num": 6}}, False, True),
    ],
)
def test_one_iteration_is_played_where_workers_end_it_as_they_began_it(
    strategy: dict[str, Any], slow: bool, is_first: bool
) -> None:
    asked = {
        "model": "squeezenet-1.0",
        "num_gpus": 6,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": 12, "host": {"gpu": "v100"}, "link": "10 Gbit/s", "hop": "1 us"},
        "software": "plain",
        "strategy": {**strategy, "buckets": "1 MiB"},
        "stragglers": [{"kind": "constant", "factor": 1.5, "of": [4]}] if slow else [],
        "num_iterations": 2,
    }
    told = check_is_exact(asked)
    assert (NO_WARM_UP in told) == is_first
