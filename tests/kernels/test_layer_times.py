"""Kernels wait for the host that issues them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.layer_times import estimate_layers
from clustersim.model import Layer, LayerTime, Model, load_model
from clustersim.program.issue import NOT_ISSUED
from clustersim.program.iteration import PlanIssue, plan_iteration
from clustersim.simulate.setup import alone_s
from clustersim.software import load_host
from tests.program.test_issue import alone_s as ended_s

LAYER = load_model("alexnet").layers[0]
COMPILED = load_host("compiled")
EACH_S = COMPILED.kernel_s


def chain(forward_s: float, data_s: float, weights_s: float, length: int = 10) -> tuple[LayerTime, ...]:
    """Return layers of one kernel a pass, each of which the host issues in `EACH_S`."""
    return with_issue((LayerTime(LAYER, forward_s, data_s, weights_s, "estimated"),) * length, COMPILED, "fp32")


def total(layers: tuple[LayerTime, ...]) -> float:
    """Return the seconds of forward and backward on one GPU with its host."""
    issue = PlanIssue([each.forward_issue for each in layers], [each.backward_issue for each in layers])
    passes = [each.forward_s for each in layers], [each.backward_s for each in layers]
    plan = plan_iteration(["a"] * len(layers), *passes, [0.0] * len(layers), 0.0, None, False, issue=issue)
    return ended_s(plan)


def test_short_kernels_take_the_hosts_time_and_the_last_kernels() -> None:
    assert total(chain(1e-6, 1e-6, 1e-6)) == pytest.approx(30 * EACH_S + 1e-6)


def test_long_kernels_take_their_own_time_after_the_first_is_issued() -> None:
    assert total(chain(1e-3, 1e-3, 1e-3)) == pytest.approx(EACH_S + 30e-3)


def test_a_host_that_takes_no_time_changes_nothing() -> None:
    layers = with_issue(chain(1e-6, 2e-6, 3e-6), COMPILED, "fp32", factor=0.0)
    assert total(layers) == pytest.approx(60e-6)


def test_a_slow_host_takes_its_factor_longer() -> None:
    layers = with_issue(chain(1e-6, 1e-6, 1e-6), COMPILED, "fp32", factor=3.0)
    assert total(layers) == pytest.approx(30 * 3 * EACH_S + 1e-6)


@pytest.mark.parametrize("name", ["compiled", "pytorch-eager"])
def test_what_is_issued_backward_belongs_to_the_passes_that_have_kernels(name: str) -> None:
    times = [LayerTime(LAYER, 1e-6, *passes, "estimated") for passes in ((1e-6, 1e-6), (0.0, 1e-6), (1e-6, 0.0))]
    both, weights, data = with_issue(times, load_host(name), "fp32")
    assert weights.backward_data_issue == NOT_ISSUED == data.backward_weights_issue
    assert weights.backward_weights_issue == data.backward_data_issue != NOT_ISSUED
    assert both.backward_data_issue != NOT_ISSUED != both.backward_weights_issue
    if name == "pytorch-eager":  # autograd has one node, whichever gradients it computes
        assert both.backward_issue.kernels == data.backward_issue.kernels
        assert both.backward_issue.host_s == pytest.approx(data.backward_issue.host_s)


def test_every_recurrent_layer_goes_token_by_token() -> None:
    shape = {"rows": 1, "inputs": 512, "outputs": 1024, "count": 30}
    lstm = Layer("r", "lstm", 3e7, 3e7, 3e7, 0, 1.0, 1.0, shape)
    kinds = tuple(replace(lstm, op=op) for op in ("lstm", "gru", "rnn", "fully-connected"))
    times = estimate_layers(Model("m", "m", kinds), load_gpu("v100"), 4, "fp32").layers
    assert times[0].forward_s == times[1].forward_s == times[2].forward_s > 3 * times[3].forward_s


def test_a_model_at_a_small_batch_on_a_fast_gpu_is_as_slow_as_its_host() -> None:
    """The host issues a kernel for each pass of each layer: forward, and for both gradients where there are weights."""
    model, optimizer = load_model("resnet50"), OptimizerSpec(skipped=True)
    work = build_workload(model, load_gpu("h100"), 1, "amp-bf16", optimizer, ComputeSpec(), issue_factor=10.0)
    kernels = sum(
        (each.forward_s > 0) + (each.backward_data_s > 0) + (each.backward_weights_s > 0) for each in work.layers
    )
    assert alone_s(work) == pytest.approx(kernels * 10 * EACH_S, rel=0.02)
    assert alone_s(work) > 4 * work.compute_s
    graphs = build_workload(model, load_gpu("h100"), 1, "amp-bf16", optimizer, ComputeSpec(launch="graphs"))
    assert alone_s(graphs) == pytest.approx(graphs.compute_s, rel=1e-12)
    assert graphs.compute_s == work.compute_s
