"""Blocking launches: the process waits for each kernel."""

from dataclasses import replace

import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload, estimate_layers
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.programs.blocking_launches import NOTICE_S, kernels_of, with_launch_waits
from clustersim.model import Workload, load_model
from clustersim.scenario.migrate import library_host
from clustersim.software import load_host

A100, LLAMA = load_gpu("a100"), load_model("llama-2-7b")
GPT = load_model("gpt-12x768x12-seq128")


def built(compute: ComputeSpec, model=LLAMA, batch: int = 1) -> Workload:
    return build_workload(model, A100, batch, "amp-bf16", OptimizerSpec(kind="adam"), compute)


def counted(model, library: str, block: str) -> tuple[int, int]:
    """Return how many kernels the layers of a block have forward and backward."""
    layers = estimate_layers(model, A100, 1, "amp-bf16", library=library).layers
    found = [kernels_of(each, library) for each in layers if each.layer.name.startswith(block)]
    return sum(each.forward for each in found), sum(each.backward_data + each.backward_weights for each in found)


def test_a_block_of_megatrons_llama_has_the_kernels_of_its_source():
    """Forward two norms, four products, 20 of rotary positions, 6 around and in attention, 2 of a gate, two sums.

    Backward three a norm, two a product, 22 of rotary positions and the parts that become one again, 3 of attention,
    4 of a gate, and a sum for each residual connection.
    """
    assert counted(LLAMA, "megatron", "h.0.") == (2 + 4 + 20 + 6 + 2 + 2, 6 + 8 + 22 + 3 + 4 + 2)


def test_a_bias_has_a_sum_of_its_own_backward_and_its_sum_forward_in_the_product():
    """A GPT's four products have biases: two norms, six products, softmax, three dropouts, gelu, two sums."""
    assert counted(GPT, "megatron", "h.0.") == (2 + 6 + 1 + 3 + 1 + 2, 6 + 12 + 4 + 1 + 3 + 1 + 2)


def test_what_was_not_counted_has_a_kernel_for_each_pass_that_takes_time():
    for each in estimate_layers(LLAMA, A100, 1, "amp-bf16").layers:
        taken = (each.forward_s, each.backward_data_s, each.backward_weights_s)
        assert kernels_of(each, "cudnn") == tuple(bool(seconds) for seconds in taken)


def test_a_pass_takes_its_kernels_one_after_the_other_each_issued_when_the_one_before_is_noticed():
    """No thread runs ahead: what a queue hides is not hidden."""
    bare = estimate_layers(LLAMA, A100, 1, "amp-bf16", library="megatron").layers
    waited = built(ComputeSpec(library="megatron", host="megatron", launch="blocking")).layers
    issued = with_issue(bare, load_host("megatron"), "amp-bf16")
    for alone, now, issue in zip(bare, waited, issued, strict=True):
        kernels = kernels_of(alone, "megatron")
        host_s = issue.forward_issue.host_s + kernels.forward * NOTICE_S
        assert now.forward_s == pytest.approx(alone.forward_s + host_s)
        host_s = issue.backward_issue.host_s + (kernels.backward_data + kernels.backward_weights) * NOTICE_S
        assert now.backward_s == pytest.approx(alone.backward_s + host_s)


def test_waits_can_be_removed_and_do_not_change_measured_times():
    layers = estimate_layers(GPT, A100, 4, "amp-bf16", library="megatron").layers
    waited = with_launch_waits(layers, "megatron", "megatron", "amp-bf16", 1.5)
    again = with_launch_waits(waited, "megatron", "megatron", "amp-bf16", 1.5, sign=-1)
    assert [each.forward_s for each in again] == pytest.approx([each.forward_s for each in layers])
    measured = tuple(replace(each, provenance="measured") for each in layers)
    assert with_launch_waits(measured, "megatron", "megatron", "amp-bf16") == measured


def test_a_larger_batch_waits_no_longer():
    def waits_s(batch: int) -> float:
        bare = estimate_layers(LLAMA, A100, batch, "amp-bf16", library="megatron").layers
        return built(ComputeSpec(library="megatron", host="megatron", launch="blocking"), batch=batch).forward_s - sum(
            each.forward_s for each in bare
        )

    assert waits_s(4) == pytest.approx(waits_s(1))


@pytest.mark.parametrize("library", ["cudnn", "eager", "megatron", "megatron-deepspeed"])
@pytest.mark.parametrize(
    "model", ["gpt-2x256x4-seq64-vocab512", "gpt-4x1024x16-seq512", "squeezenet-1.0", "llama-2-7b"]
)
@pytest.mark.parametrize("factor", [0.65, 1.9])
def test_blocking_is_never_quicker_than_a_queue(library, model, factor):
    """Also where the GPU waits for its host in a queue, and for slow and quick hosts."""
    cpu = {0.65: "xeon-platinum-8480c", 1.9: "xeon-e5-2630-v4"}[factor]
    scenario = {
        "model": model,
        "num_gpus": 1,
        "batch": {"per_gpu": 1},
        "precision": "amp-fp16",
        "topology": {
            "kind": "star",
            "num_hosts": 1,
            "host": {"template": "dual-socket", "gpu": "a100", "num_gpus": 1, "cpu": cpu},
            "link": "1 GB/s",
        },
        "strategy": {"kind": "all-reduce", "overlap": False},
        "memory_check": False,
    }
    queued, blocking = (
        clustersim.simulate(
            {
                **scenario,
                "software": {"name": "plain", "library": library, "host": library_host(library), "launch": launch},
            }
        ).iteration_s
        for launch in ("queued", "blocking")
    )
    assert blocking > queued
