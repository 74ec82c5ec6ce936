"""Linear layers in FP8: times of their GEMMs and casts, and what stays in 16 bits."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.memory import activation_bytes, weight_copy_bytes
from clustersim.kernels.narrow_gemms import PEAK_RATIO, narrow_share
from clustersim.model import load_model
from clustersim.model.builder import Builder, Tensor
from clustersim.model.casts import Casts, CastsKind
from clustersim.model.layer import Model

BATCH, ROWS, INPUTS, OUTPUTS = 2, 8192, 4096, 14_336


def one_layer() -> Model:
    net = Builder("one", "one")
    x = net.linear("in", Tensor(INPUTS, ROWS), OUTPUTS, bias=False)
    net.loss("loss", net.linear("head", x, 64, bias=False))
    return net.model()


def test_a_large_product_goes_by_its_peak_with_five_bytes_for_each_element_that_is_cast() -> None:
    """Products of this size are bound by the tensor cores to 3 %; the rest of a phase is its casts."""
    gpu, model = load_gpu("h100"), one_layer()
    wide, narrow = (estimate_layers(model, gpu, BATCH, name).layers[0] for name in ("amp-bf16", "amp-fp8"))
    constants = constants_of(gpu, "tensor")
    assert constants.products is not None
    assert constants.products.fp8_share is not None
    gain = gpu.flop_per_s["amp-fp8"] / gpu.flop_per_s["amp-bf16"] * constants.products.fp8_share
    rate = constants.shape.memory_efficiency * gpu.memory_bytes_per_s
    read, written, weights = BATCH * ROWS * INPUTS, BATCH * ROWS * OUTPUTS, INPUTS * OUTPUTS
    for phase, cast, casts in (
        ("forward_s", read + weights, 2),
        ("backward_data_s", written + weights, 2),
        ("backward_weights_s", read, 1),
    ):
        product_s = (getattr(wide, phase) - constants.products.kernel_s) / gain
        casts_s = 5 * cast / rate + 2 * casts * gpu.launch_s
        rest_s = getattr(narrow, phase) - casts_s - constants.products.kernel_s
        assert rest_s == pytest.approx(product_s, rel=0.03)


def test_a_chip_without_a_table_has_the_assumed_ratio() -> None:
    assert narrow_share(constants_of(load_gpu("v100"), "tensor"), "amp-fp8") == PEAK_RATIO


def test_attention_the_last_layer_and_what_is_no_product_stay_in_16_bits() -> None:
    model, gpu = load_model("llama-3.1-8b"), load_gpu("h100")
    wide, narrow = (estimate_layers(model, gpu, 1, name).layers for name in ("amp-bf16", "amp-fp8"))
    quicker = {one.layer.name for one, other in zip(wide, narrow, strict=True) if other.forward_s != one.forward_s}
    linear = [layer.name for layer in model.layers if layer.op == "fully-connected"]
    assert quicker == set(linear) - {"head"}


@pytest.mark.parametrize(("kind", "is_quicker"), [("torchao", False), ("te", True), ("te-cached", True)])
def test_experts_are_in_8_bits_where_transformer_engine_has_their_products(kind: CastsKind, is_quicker: bool) -> None:
    model, gpu = load_model("mixtral-8x7b"), load_gpu("h100")
    wide, narrow = (estimate_layers(model, gpu, 1, name, casts=Casts(kind)).layers for name in ("amp-bf16", "amp-fp8"))
    pairs = [pair for pair in zip(wide, narrow, strict=True) if pair[0].layer.op == "experts"]
    assert pairs
    assert all((other.forward_s < one.forward_s) == is_quicker for one, other in pairs)


def test_what_is_kept_is_kept_in_16_bits() -> None:
    model = load_model("llama-3.1-8b")
    assert activation_bytes(model, "amp-fp8") == activation_bytes(model, "amp-bf16")
    assert weight_copy_bytes(model, "amp-fp8") == weight_copy_bytes(model, "amp-bf16")


def test_the_assumed_fp8_efficiency_is_reported_and_a_gpu_without_fp8_is_refused() -> None:
    model = one_layer()
    said = estimate_layers(model, load_gpu("h100"), 1, "amp-fp8").assumptions
    assert any("GEMMs in FP8 are assumed to reach" in sentence for sentence in said)
    with pytest.raises(InputError, match="does not compute in amp-fp8"):
        estimate_layers(model, load_gpu("a100"), 1, "amp-fp8")
