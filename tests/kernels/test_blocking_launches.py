"""Blocking launches: the process waits for each kernel."""

from dataclasses import replace

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload, estimate_layers
from clustersim.kernels.programs.blocking_launches import LAUNCH_WAIT_S, kernels_of, with_launch_waits
from clustersim.model import Workload, load_model

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


def test_a_pass_takes_its_kernels_one_after_the_other_and_a_wait_for_each():
    """No thread runs ahead: what a queue hides is not hidden, and what it waits for at small batches is in the wait."""
    bare = estimate_layers(LLAMA, A100, 1, "amp-bf16", library="megatron").layers
    waited = built(ComputeSpec(library="megatron", launch="blocking")).layers
    for alone, now in zip(bare, waited, strict=True):
        kernels = kernels_of(alone, "megatron")
        assert now.forward_s == pytest.approx(alone.forward_s + kernels.forward * LAUNCH_WAIT_S)
        both = kernels.backward_data + kernels.backward_weights
        assert now.backward_s == pytest.approx(alone.backward_s + both * LAUNCH_WAIT_S)


def test_waits_can_be_removed_and_do_not_change_measured_times():
    layers = estimate_layers(GPT, A100, 4, "amp-bf16", library="megatron").layers
    again = with_launch_waits(with_launch_waits(layers, "megatron"), "megatron", -1)
    assert [each.forward_s for each in again] == pytest.approx([each.forward_s for each in layers])
    measured = tuple(replace(each, provenance="measured") for each in layers)
    assert with_launch_waits(measured, "megatron") == measured


def test_a_larger_batch_waits_no_longer():
    def waits_s(batch: int) -> float:
        bare = estimate_layers(LLAMA, A100, batch, "amp-bf16", library="megatron").layers
        return built(ComputeSpec(library="megatron", launch="blocking"), batch=batch).forward_s - sum(
            each.forward_s for each in bare
        )

    assert waits_s(4) == pytest.approx(waits_s(1))


def test_blocking_is_never_quicker_than_a_queue():
    for batch in (1, 8):
        for model in (LLAMA, GPT):
            queued, blocking = (built(ComputeSpec(launch=each), model, batch) for each in ("queued", "blocking"))
            assert blocking.forward_s > queued.forward_s
            assert blocking.backward_s > queued.backward_s


def test_a_profile_has_times_of_a_queue():
    with pytest.raises(ValueError, match="drop launch, or profile"):
        ComputeSpec(profile="nin-xeon-2-50ghz", launch="blocking")


def test_bigscience_lost_what_waits_make_of_its_layers():
    """Blocking took 6 % of the rate of 200 billion parameters on 80 A100 and nothing on 160 (0.2 and 0.0 % more).

    chronicles-prequel.md, "dealing with JZ hanging on the large model": 97.20 to 91.04 TFLOP/s, 84.44 to 84.59, 90.25
    to 90.29. A layer over 8 GPUs, a sequence of 2,048 tokens, everything computed again: the forecast is between them.
    """
    layers = estimate_layers(load_model("gpt-80x14400x96-seq2048"), A100, 1, "amp-fp16", library="megatron").layers
    block = [each for each in layers if each.layer.name.startswith("h.0.")]
    kernels = [kernels_of(each, "megatron") for each in block]
    computed_s = sum(2 * each.forward_s + each.backward_s for each in block) / 8
    waited_s = LAUNCH_WAIT_S * sum(2 * each.forward + each.backward_data + each.backward_weights for each in kernels)
    assert 0.0 < waited_s / (computed_s + waited_s) < 0.0634
