"""A stated rate of one GPU is reached with its host, also where the host alone is slower than the rate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload, estimate_layers
from clustersim.kernels.rate_factor import RateFactor, factor_for
from clustersim.model import LayerTime, Workload, load_model
from clustersim.model.layer import Layer
from clustersim.program.issue import IssueBuilder, PassIssue, issue_times
from clustersim.scenario.migrate import library_host
from clustersim.simulate.setup import alone_s

GPU = load_gpu("h100")
ADAM = OptimizerSpec(kind="adam")


def built(model: str, batch: int, library: str, rate: float | None = None, **more: Any) -> Workload:
    single = {"samples_per_s": rate, "batch": batch, "source": "a test"} if rate else None
    compute = ComputeSpec.model_validate({"library": library, "host": library_host(library), "single_gpu": single})
    return build_workload(load_model(model), GPU, batch, "amp-bf16", ADAM, compute, **more)


@pytest.mark.parametrize("share", [0.4, 0.97, 1.0, 1.5, 20.0])
@pytest.mark.parametrize("library", ["unrolled", "eager"])
@pytest.mark.parametrize("batch", [1, 8, 128])
def test_a_rate_is_reached_exactly_with_the_host(batch: int, library: str, share: float) -> None:
    """Rates around the one that is forecast without them: the host is the limit in some, the GPU in others."""
    wanted_s = share * alone_s(built("resnet50", batch, library))
    work = built("resnet50", batch, library, batch / wanted_s)
    assert alone_s(work) == pytest.approx(wanted_s, rel=1e-9)
    assert work.provenance()["published"] == pytest.approx(1)


@pytest.mark.parametrize("issue_factor", [0.5, 2.0])
def test_a_rate_is_reached_exactly_with_a_host_of_another_cpu(issue_factor: float) -> None:
    work = built("resnet50", 8, "eager", 200.0, issue_factor=issue_factor)
    assert alone_s(work) == pytest.approx(8 / 200, rel=1e-9)


def test_kernels_keep_their_estimates_where_the_host_alone_is_slower_than_the_rate() -> None:
    plain = built("resnet50", 1, "eager")
    host_s = sum(each.forward_issue.host_s + each.backward_issue.host_s for each in plain.layers)
    wanted_s = 1.05 * plain.compute_s
    assert wanted_s < 0.9 * host_s  # one image: the host is the limit
    work = built("resnet50", 1, "eager", 1 / wanted_s)
    assert alone_s(work) == pytest.approx(wanted_s, rel=1e-9)
    estimates = estimate_layers(load_model("resnet50"), GPU, 1, "amp-bf16", library="eager").layers
    assert [each.forward_s for each in work.layers] == [each.forward_s for each in estimates]
    shares = {
        round(one.forward_issue.host_s / other.forward_issue.host_s, 9)
        for one, other in zip(work.layers, plain.layers, strict=True)
    }
    (share,) = shares
    assert 0 < share < 0.9
    assert work.host.update.host_s == pytest.approx(share * plain.host.update.host_s)
    assert f"the host takes {share:.2f} times its estimate to issue them" in work.assumptions[0]


def test_a_rate_that_leaves_kernels_less_than_their_estimates_leaves_the_host_no_time() -> None:
    plain = built("resnet50", 128, "eager")
    passes_s = plain.compute_s - plain.optimizer_s
    work = built("resnet50", 128, "eager", 128 / (0.01 * passes_s + plain.optimizer_s))
    assert alone_s(work) == pytest.approx(0.01 * passes_s + plain.optimizer_s, rel=1e-9)
    assert sum(each.forward_s + each.backward_s for each in work.layers) == pytest.approx(0.01 * passes_s)


def one_gpu(rate: dict[str, Any], **more: Any) -> float:
    """Return the samples a second of a run on one GPU."""
    scenario = {
        "model": "gpt-2x256x4-seq1024-vocab512", "num_gpus": 1, "precision": "amp-bf16", "memory_check": False,
        "topology": {"kind": "star", "num_hosts": 1, "gpu": "h100", "link": "100 Gbit/s", "hop": "1 us"},
        "software": {"name": "plain", "library": "eager", "host": "pytorch-eager"},
        "strategy": {"kind": "all-reduce"}, "compute": {"single_gpu": rate}, **more,
    }  # fmt: skip
    return clustersim.simulate(scenario).samples_per_s


@pytest.mark.parametrize("samples_per_s", [150.0, 1500.0])
@pytest.mark.parametrize("num", [1, 2, 8])
def test_a_rate_of_added_up_batches_is_reached_in_a_run_of_them(num: int, samples_per_s: float) -> None:
    """The host goes on to the next batch while the GPU computes: it is waited for once an update, not once a batch."""
    rate = {"samples_per_s": samples_per_s, "batch": 4, "batches_per_update": num, "source": "a test"}
    found = one_gpu(rate, batch={"per_gpu": 4 * num}, parallelism={"micro_batches": num})
    assert found == pytest.approx(samples_per_s, rel=1e-9)


@pytest.mark.parametrize("strategy", [{"kind": "all-reduce"}, {"kind": "local", "steps": 2}])
def test_one_gpu_alone_issues_no_exchange(strategy: dict[str, Any]) -> None:
    """The host is the limit of this rate: it would not be reached if it issued an exchange of gradients as well."""
    rate = {"samples_per_s": 1500.0, "batch": 4, "source": "a test"}
    assert one_gpu(rate, batch={"per_gpu": 4}, strategy=strategy) == pytest.approx(1500.0, rel=1e-9)


LAYER = Layer("a", "add", 1.0, 1.0, 0.0, 0, 1.0, 1.0)
times = st.floats(1e-6, 1e-3)
passes = st.tuples(times, times, st.floats(0.0, 1e-3), st.floats(0.0, 1e-3), st.integers(1, 4), st.integers(1, 4))


def unrolled_s(layers: list[LayerTime], update: PassIssue, update_s: float, num: int, factor: RateFactor) -> float:
    """Return the seconds of all batches of an update, kernel after kernel."""
    builder, end_s = IssueBuilder(), 0.0
    for _ in range(num):
        for each in layers:
            builder.add(factor.kernels * each.forward_s, each.forward_issue.scaled(factor.host))
        for each in reversed(layers):
            builder.add(factor.kernels * each.backward_s, each.backward_issue.scaled(factor.host))
    issue = builder.build()
    end_s = issue.end_s(0.0, 0.0, builder.work_s, 1.0)
    return issue_times([(update_s, update.scaled(factor.host))]).end_s(end_s, issue.host_s, update_s, 1.0)


@settings(deadline=None, max_examples=200)
@given(
    rows=st.lists(passes, min_size=1, max_size=5), update=st.tuples(times, st.floats(0.0, 1e-3), st.integers(1, 3)),
    num=st.integers(1, 5), wanted_s=st.floats(1e-5, 1e-2),
)  # fmt: skip
def test_whatever_the_layers_the_time_that_is_wanted_is_met(
    rows: list[tuple[float, float, float, float, int, int]], update: tuple[float, float, int], num: int, wanted_s: float
) -> None:
    layers = [
        LayerTime(LAYER, forward_s, backward_s, 0.0, "estimated", PassIssue(one_s, one), PassIssue(other_s, other))
        for forward_s, backward_s, one_s, other_s, one, other in rows
    ]
    update_s, issue = update[0], PassIssue(update[1], update[2])
    wanted_s += update_s / num
    factor = factor_for(layers, issue_times([(update_s, issue)]), update_s, num, wanted_s)
    assert factor.kernels > 0
    assert 0 <= factor.host <= 1
    assert factor.host == 1 or factor.kernels <= 1
    assert unrolled_s(layers, issue, update_s, num, factor) == pytest.approx(num * wanted_s, rel=1e-9)
