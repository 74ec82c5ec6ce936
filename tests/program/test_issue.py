"""Issue times: the max-plus scan gives the times of a loop over kernels, and what is left out of it never binds."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.program import plan_iteration
from clustersim.program.issue import FASTEST, NO_ISSUE, NOT_ISSUED, PassIssue, issue_of_call, issue_times, joined
from clustersim.program.iteration import Iteration, PlanIssue

Passes = list[tuple[float, PassIssue]]

# In microseconds, so that a tolerance of 1e-9 is far below a kernel.
seconds = st.sampled_from([0.0, 1.0, 3.0, 7.0, 20.0])
issues = st.builds(PassIssue, st.sampled_from([0.0, 2.0, 5.0, 14.0, 30.0]), st.integers(0, 4))
passes = st.lists(st.tuples(seconds, issues), max_size=8)
times = st.floats(0.0, 40.0)
slowdowns = st.floats(0.1, 4.0)


def loop(work: Passes, gpu_s: float, host_s: float, slowdown: float) -> tuple[float, float]:
    """Run kernel by kernel: each starts when the GPU is free and it has been issued. Return the ends of both."""
    for kernels_s, issue in work:
        num = issue.kernels if kernels_s else 0
        for number in range(num):
            issued_s = host_s + issue.host_s * (number + 1) / num
            gpu_s = max(gpu_s, issued_s) + slowdown * kernels_s / num
        if not num:
            gpu_s += slowdown * kernels_s
        host_s += issue.host_s
    return gpu_s, host_s


def work_s(work: Passes) -> float:
    """Return the seconds of kernels of passes."""
    return sum(kernels_s for kernels_s, _ in work)


@given(passes, times, times, slowdowns)
def test_the_scan_gives_the_end_of_a_loop_over_kernels(work, start_s, host_s, slowdown):
    issue = issue_times(work)
    end_s, issued_s = loop(work, start_s, host_s, slowdown)
    assert issue.end_s(start_s, host_s, work_s(work), slowdown) == pytest.approx(end_s, rel=1e-12, abs=1e-9)
    assert host_s + issue.host_s == pytest.approx(issued_s, rel=1e-12, abs=1e-9)
    assert all(one <= other + 1e-12 for column in zip(*issue.rows, strict=True) for one, other in pairwise(column))


def test_a_chain_of_short_kernels_takes_the_hosts_time_and_one_of_long_kernels_the_gpus():
    short, long = [(2.0, PassIssue(10.0, 1))] * 5, [(50.0, PassIssue(10.0, 1))] * 5
    assert issue_times(short).end_s(0.0, 0.0, 10.0, 1.0) == 52.0  # the last kernel after five calls
    assert issue_times(long).end_s(0.0, 0.0, 250.0, 1.0) == 260.0  # the first call, and all kernels


def test_an_issue_time_at_the_end_of_a_lead_binds_only_if_the_lead_is_used_up():
    """A kernel of 100 us hides the calls of the next ten of 1 us; not of the next twenty."""
    assert issue_times([(100.0, PassIssue(10.0, 1)), (10.0, PassIssue(100.0, 10))]).end_s(0, 0, 110.0, 1) == 120.0
    assert issue_times([(100.0, PassIssue(10.0, 1)), (20.0, PassIssue(200.0, 20))]).end_s(0, 0, 120.0, 1) == 211.0


@given(passes, times, times, slowdowns, st.floats(1.0, 5.0))
def test_what_cannot_bind_at_a_slowdown_does_not_bind_at_a_larger_one(work, start_s, host_s, slowdown, more):
    """So it is at the end of all work, and up to each issue time that is left out, wherever the GPU begins."""
    issue = issue_times(work)
    numbers = issue.that_bind(slowdown)
    fewer = issue.only(numbers)
    for end in range(len(issue) + 1):
        until_s = work_s(work) if end == len(issue) else float(issue.work_s[end])
        some = issue.between(0, end, 0.0)
        kept = fewer.between(0, int(np.searchsorted(numbers, end)), 0.0)
        slower = slowdown * more
        expected = some.end_s(start_s, host_s, until_s, slower)
        assert kept.end_s(start_s, host_s, until_s, slower) == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert fewer.host_s == issue.host_s


def test_at_a_smaller_slowdown_what_was_left_out_can_bind():
    issue = issue_times([(10.0, PassIssue(5.0, 1)), (10.0, PassIssue(8.0, 1))])
    assert issue.that_bind(1.0).tolist() == [0]
    assert issue.that_bind(FASTEST).tolist() == [0, 1]


@given(passes, passes)
def test_work_after_other_work_has_the_issue_times_of_both_in_one_go(first, second):
    both = joined([(work_s(first), issue_times(first)), (work_s(second), issue_times(second))])
    whole = issue_times([*first, *second])
    assert both.host_s == pytest.approx(whole.host_s)
    for start_s, slowdown in ((0.0, 1.0), (25.0, 0.3), (0.0, 3.0)):
        expected = whole.end_s(start_s, 0.0, work_s(first + second), slowdown)
        assert both.end_s(start_s, 0.0, work_s(first + second), slowdown) == pytest.approx(expected, rel=1e-12)
    if issue_times(first).host_s and issue_times(second).host_s:
        np.testing.assert_allclose(both.rows, whole.rows, rtol=1e-12)


def test_a_call_is_issued_before_what_follows_it_and_takes_the_gpu_no_time():
    call = issue_of_call(45.0)
    assert call.end_s(0.0, 0.0, 0.0, 1.0) == 45.0
    assert call.end_s(60.0, 0.0, 0.0, 1.0) == 60.0
    after = joined([(0.0, call), (10.0, issue_times([(10.0, PassIssue(5.0, 1))]))])
    assert after.end_s(0.0, 0.0, 10.0, 1.0) == 60.0
    assert len(issue_of_call(0.0)) == len(NO_ISSUE) == 0


class Drawn(NamedTuple):
    """Forward and backward passes in the order in which they run, an update, and the iteration planned of them."""

    forward: Passes
    backward: Passes
    call_s: float
    overlap: bool
    update: tuple[float, PassIssue]
    plan: Iteration

    def loop(self, gpu_s: float, host_s: float, slowdown: float) -> tuple[list[float], float]:
        """Run kernel by kernel. Return the ends of forward, of each bucket and of backward, and that of the update."""
        gpu_s, host_s = loop(self.forward, gpu_s, host_s, slowdown)
        ends_s, last = [gpu_s], len(self.backward) - 1
        for number, each in enumerate(self.backward):
            gpu_s, host_s = loop([each], gpu_s, host_s, slowdown)
            for _ in range(1 if self.overlap else (number == last) * len(self.backward)):
                host_s += self.call_s
                gpu_s = max(gpu_s, host_s) if self.call_s else gpu_s
                ends_s.append(gpu_s)
        return [*ends_s, gpu_s], loop([self.update], gpu_s, host_s, slowdown)[0]


@st.composite
def plans(draw: st.DrawFn) -> Drawn:
    """Return layers, each with a bucket of its own; backward passes have kernels, so buckets are ready one by one."""
    some = st.lists(st.tuples(seconds, issues), min_size=1, max_size=5)
    forward = draw(some)
    backward = [(draw(seconds) + 1.0, draw(issues)) for _ in forward]
    update, call_s, overlap = draw(st.tuples(seconds, issues)), draw(st.sampled_from([0.0, 9.0])), draw(st.booleans())
    plan = plan_iteration(
        [f"layer {number}" for number in range(len(forward))],
        [each for each, _ in forward],
        [each for each, _ in reversed(backward)],
        [8.0] * len(forward),
        update[0],
        (0.0,),
        overlap,
        issue=PlanIssue([each for _, each in forward], [each for _, each in reversed(backward)], call_s, update[1]),
    )
    return Drawn(forward, backward, call_s, overlap, update, plan)


@settings(max_examples=60)
@given(plans(), times, times, slowdowns)
def test_buckets_are_ready_when_a_loop_has_them_ready_and_their_exchange_is_issued(drawn, gpu_s, host_s, slowdown):
    issue, cuts_s = drawn.plan.issue, drawn.plan.cuts_s
    expected, _ = drawn.loop(gpu_s, host_s, slowdown)
    ranks = np.array([gpu_s, gpu_s + 5.0]), np.array([slowdown, slowdown]), np.array([host_s, host_s + 5.0])
    found = issue.cut_ends_s(cuts_s, *ranks)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found[:, 1], np.array(expected) + 5.0, rtol=1e-12, atol=1e-9)
    kept = issue.that_bind(min(slowdown, FASTEST)).cut_ends_s(cuts_s, *ranks)
    np.testing.assert_allclose(kept, found, rtol=1e-12, atol=1e-9)


def alone_s(plan: Iteration) -> float:
    """Return the seconds of an iteration whose exchanges take no time."""
    assert plan.issue is not None
    zero, one = np.zeros(1), np.ones(1)
    computed_s = float(plan.issue.cut_ends_s(plan.cuts_s, zero, one, zero)[-1, 0])
    return plan.issue.update.end_s(computed_s, plan.issue.passes.host_s, plan.update_s, 1.0)


@settings(max_examples=60)
@given(plans())
def test_an_iteration_alone_is_a_loop_over_its_kernels_its_calls_and_its_update(drawn):
    assert alone_s(drawn.plan) == pytest.approx(drawn.loop(0.0, 0.0, 1.0)[1], rel=1e-12)


@settings(max_examples=60)
@given(plans())
def test_the_call_of_an_exchange_follows_exactly_the_work_before_it(drawn):
    """To the last bit, so that a GPU that waits for it goes on exactly when it has been issued."""
    issue, cuts_s = drawn.plan.issue, drawn.plan.cuts_s
    if drawn.call_s:
        calls = issue.num_before[1:-1] - 1
        assert issue.passes.work_s[calls].tolist() == cuts_s[1:-1].tolist()


def test_without_issue_times_nothing_binds():
    plan = plan_iteration(["a"], [2.0], [3.0], [8.0], 1.0, (0.0,), overlap=True)
    assert plan.issue is None
    assert plan.binding is None


def test_a_host_that_issues_at_once_leaves_nothing_that_binds():
    issue = PlanIssue([NOT_ISSUED], [NOT_ISSUED], 0.0, NOT_ISSUED)
    plan = plan_iteration(["a"], [2.0], [3.0], [8.0], 1.0, (0.0,), overlap=True, issue=issue)
    assert plan.binding is None
    assert alone_s(plan) == plan.compute_s


def test_kernels_of_other_work_in_between_keep_the_issue_times_before_them():
    each = PassIssue(1.0, 1)
    plan = plan_iteration(
        ["a", "b"], [2.0, 2.0], [3.0, 3.0], [8.0, 8.0], 1.0, (0.0,), overlap=True,
        issue=PlanIssue([each, each], [each, each], 4.0, NOT_ISSUED),
    )  # fmt: skip
    assert plan.issue is not None
    assert plan.issue.passes.work_s.tolist() == [0.0, 2.0, 4.0, 7.0, 7.0, 10.0]
    assert plan.issue.delayed(0.0, [10.0, 100.0]).passes.work_s.tolist() == [0.0, 2.0, 4.0, 7.0, 17.0, 20.0]
    assert plan.issue.delayed(1.0, [10.0, 100.0]).passes.work_s.tolist() == [1.0, 3.0, 5.0, 8.0, 18.0, 21.0]
    assert plan.issue.delayed(0.0, [0.0, 0.0]) is plan.issue
