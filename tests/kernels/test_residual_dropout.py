"""Residual sums of Megatron-LM with a dropout of probability 0."""

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.programs.blocking_launches import NOTICE_S, kernels_of, with_launch_waits
from clustersim.kernels.programs.residual_dropout import FUSED, UNFUSED, drops_in_sums, extra_kernels, sum_traffic
from clustersim.model import PRECISIONS, load_model
from clustersim.software import load_host

A100, LLAMA = load_gpu("a100"), load_model("llama-2-7b")


def sums(model, library: str):
    """Return the times of the residual sums of a model's first block."""
    layers = estimate_layers(model, A100, 1, "amp-bf16", library=library).layers
    return [each for each in layers if each.layer.op == "add" and each.layer.name.startswith("h.0.")]


@pytest.mark.parametrize(("library", "forward"), [(FUSED, 2 + 1 + 0.5), (UNFUSED, (1 + 1 + 0.5) + 3)])
def test_a_mask_has_a_byte_a_number_and_is_written_forward_and_read_backward(library, forward):
    """Apart the dropout reads one tensor and writes one and the mask, and the sum moves three; backward 2.5 and 3."""
    found = [each.elements(2.0, 1.0) for each in sum_traffic(PRECISIONS["amp-bf16"], library)]
    assert found == [forward, 2 + 0.5 + 3]
    assert sum_traffic(PRECISIONS["fp32"], library)[1].output == 5.25


@pytest.mark.parametrize("library", [FUSED, UNFUSED])
def test_a_sum_of_a_llama_takes_the_time_of_these_bytes(library):
    constants = constants_of(A100, "tensor")
    rate = constants.memory_efficiency * A100.memory_bytes_per_s
    for each in sums(LLAMA, library):
        moved = [
            2 * each.layer.output_elements * traffic.output for traffic in sum_traffic(PRECISIONS["amp-bf16"], library)
        ]
        assert each.forward_s == pytest.approx(moved[0] / rate + A100.launch_s)
        assert each.backward_s == pytest.approx(moved[1] / rate + A100.launch_s)


def test_a_model_with_dropouts_of_its_own_and_other_libraries_have_none_in_their_sums():
    gpt = load_model("gpt-12x768x12-seq128")
    assert not drops_in_sums(gpt.layers, UNFUSED)
    assert not drops_in_sums(LLAMA.layers, "eager")
    assert drops_in_sums(LLAMA.layers, UNFUSED)
    assert [each.forward_s for each in sums(gpt, UNFUSED)] == [each.forward_s for each in sums(gpt, "eager")]


@pytest.mark.parametrize(("library", "extra"), [(FUSED, (0, 1)), (UNFUSED, (1, 1)), ("megatron", (0, 0))])
def test_a_process_waits_for_the_kernels_of_a_dropout(library, extra):
    layers = estimate_layers(LLAMA, A100, 1, "amp-bf16", library=library).layers
    waited = with_launch_waits(layers, library, "megatron", "amp-bf16")
    issued = with_issue(layers, load_host("megatron"), "amp-bf16")
    for alone, now, issue in zip(layers, waited, issued, strict=True):
        if alone.layer.op == "add":
            forward_s, backward_s = issue.forward_issue.host_s, issue.backward_issue.host_s
            assert now.forward_s - alone.forward_s == pytest.approx(forward_s + (1 + extra[0]) * NOTICE_S)
            assert now.backward_s - alone.backward_s == pytest.approx(backward_s + (1 + extra[1]) * NOTICE_S)
    again = with_launch_waits(waited, library, "megatron", "amp-bf16", sign=-1)
    assert [each.backward_s for each in again] == pytest.approx([each.backward_s for each in layers])
    total = extra_kernels(library) if library != "megatron" else (0, 0)
    assert total == extra
    assert kernels_of(layers[1], library) == kernels_of(layers[1], library, drops=True)
