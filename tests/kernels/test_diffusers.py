"""Memory traffic around the GEMMs of a U-Net of Hugging Face's diffusers."""

import pytest

from clustersim.kernels.programs.diffusers import DIFFUSERS, diffusers_extra_bytes, diffusers_traffic
from clustersim.kernels.programs.eager import eager_extra_bytes, eager_traffic
from clustersim.kernels.programs.language_models import EXTRA_BYTES, TRAFFIC
from clustersim.model import PRECISIONS, Layer, load_model

FP16 = PRECISIONS["amp-fp16"]


def layer_of(name: str) -> Layer:
    return next(layer for layer in load_model("stable-diffusion-2-512").layers if layer.name == name)


@pytest.mark.parametrize(("attention", "keys"), [("self", 64 * 64), ("text", 77)])
def test_queries_keys_values_and_what_is_mixed_are_copied_each_way(attention, keys):
    halves = [layer_of(f"down0.0.transformer.{attention}.{name}") for name in ("scores", "context")]
    copies = [diffusers_extra_bytes(each, FP16) for each in halves]
    read_and_written = 2 * 2.0 * 320 * (64 * 64 + keys)
    assert [each.forward for each in copies] == [each.backward_data for each in copies] == [read_and_written] * 2


def test_gradients_of_a_gates_halves_are_put_together():
    gate = layer_of("down0.0.transformer.feed_forward.gate")
    moved = diffusers_traffic(gate, FP16)
    assert moved is not None
    found = [each.elements(gate.input_elements, gate.output_elements) / gate.output_elements for each in moved]
    assert found == [5, 13]


def test_all_else_is_as_in_pytorch_without_a_compiler():
    others = [each for each in load_model("stable-diffusion-2-512").layers if each.op != "matmul"]
    assert all(diffusers_extra_bytes(each, FP16) == eager_extra_bytes(each, FP16) for each in others)
    no_gates = [each for each in others if not each.name.endswith("gate")]
    assert all(diffusers_traffic(each, FP16) == eager_traffic(each, FP16) for each in no_gates)
    assert (TRAFFIC[DIFFUSERS], EXTRA_BYTES[DIFFUSERS]) == (diffusers_traffic, diffusers_extra_bytes)
