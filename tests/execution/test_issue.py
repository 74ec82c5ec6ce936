"""A host that issues kernels: processes, arrays and compiled kernels give the same times, and all wait for it."""

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest

from clustersim.execution import Job
from clustersim.program.issue import PassIssue
from clustersim.program.iteration import PlanIssue
from clustersim.strategies import AllReduce, Async, Local, Server, Servers, Strategy
from tests.simulate.shortcut_checks import check_folded_is_exact
from tests.strategies.jobs import MB, play

LAYERS = [(0.01, 0.02, 3 * MB), (0.02, 0.01, 0.4 * MB), (0.002, 0.004, 5 * MB), (0.01, 0.03, 2 * MB)]
HOSTS = {"quick": 1e-4, "about as quick": 6e-3, "slow": 0.04}
STRATEGIES = {
    "all-reduce": AllReduce(algorithm="ring", buckets="1 MiB"),
    "at-the-end": AllReduce(algorithm="ring", buckets="1 MiB", overlap=False),
    "server": Server(buckets="1 MiB", servers=Servers(num=1)),
    "local": Local(steps=2),
    "async": Async(servers=Servers(num=1)),
}


def issue(operator_s: float) -> PlanIssue:
    """Return passes of one to three kernels; the exchange of a bucket takes as long as two kernels."""
    forward = [PassIssue(number * operator_s, number) for number in (1, 3, 2, 1)]
    backward = [PassIssue(number * operator_s, number) for number in (2, 2, 3, 1)]
    return PlanIssue(forward, backward, 2 * operator_s, PassIssue(4 * operator_s, 4))


def job(strategy: Strategy, operator_s: float | None, exact: bool, jitter: bool, transport: str) -> Job:
    slowdown = (
        np.random.default_rng(1).uniform(0.6, 1.6, size=(4, 3)) if jitter else np.array([[1.0], [1.3], [1.0], [0.4]])
    )
    changes: dict[str, Any] = {} if operator_s is None else {"issue": issue(operator_s)}
    return play(
        strategy, 4, slowdown, layers=LAYERS, num_iterations=3, update_s=0.01, transport=transport, exact=exact,
        num_hosts=5, gpu="v100", link="1 GB/s", hop="1 us", **changes,
    )  # fmt: skip


TIE = ("async", "slow", False, "ideal")
"""Left out: equal ranks reach the server at the same time, and rounding alone says which is served first."""

CASES = [case for case in product(STRATEGIES, HOSTS, (False, True), ("ideal", "nccl")) if case != TIE]


@pytest.mark.parametrize(("name", "host", "jitter", "transport"), CASES)
def test_processes_and_arrays_wait_alike_for_the_host(name: str, host: str, jitter: bool, transport: str) -> None:
    one, other = (job(STRATEGIES[name], HOSTS[host], exact, jitter, transport).times for exact in (False, True))
    for column in fields(one):
        if column.name != "awaited_rank":
            here, there = getattr(one, column.name), getattr(other, column.name)
            num = min(here.shape[1], there.shape[1], 3)
            np.testing.assert_allclose(here[:, :num], there[:, :num], rtol=1e-9, atol=1e-12, err_msg=column.name)


def test_a_slow_host_sets_the_time_of_an_iteration_and_a_quick_one_does_not() -> None:
    without = job(STRATEGIES["at-the-end"], None, False, False, "ideal").times
    quick = job(STRATEGIES["at-the-end"], 1e-6, False, False, "ideal").times
    slow = job(STRATEGIES["at-the-end"], 0.1, False, False, "ideal").times
    assert quick.end_s[:, 0] == pytest.approx(
        without.end_s[:, 0] + 1e-6, abs=1e-9
    )  # the first kernel waits for its issue
    assert quick.host_s[:, 0] == pytest.approx([1e-6] * 4)
    # 15 kernels and 3 exchanges in a row, and the last kernel
    num_buckets = slow.ready_s.shape[2]
    assert slow.computed_s[0, 0] == pytest.approx((15 + 2 * num_buckets) * 0.1, abs=0.04)
    parts = slow.end_s - slow.begin_s
    assert (slow.host_s[:, 0] > 0.9 * parts[:, 0]).all()


@pytest.mark.parametrize("layout", [{"tensor": 4}, {"pipeline": 2, "tensor": 2, "micro_batches": 2}], ids=str)
@pytest.mark.parametrize("strategy", [{"kind": "all-reduce"}, {"kind": "local", "steps": 2}], ids=str)
def test_a_folded_layout_issues_in_backward_only_what_is_exchanged_there(
    strategy: dict[str, Any], layout: dict[str, Any]
) -> None:
    """Local SGD averages after the update, and exchanges nothing when a bucket is ready."""
    check_folded_is_exact(
        {
            "model": "gpt-2x256x4-seq64",
            "num_gpus": 8,
            "batch": {"per_gpu": 1},
            "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "infiniband-hdr", "hop": "1 us"},
            "software": {"name": "plain", "library": "eager", "host": "pytorch-eager"},
            "transport": "nccl",
            "strategy": strategy,
            "parallelism": layout,
            "num_iterations": 2,
        }
    )
