"""Products in MXFP8 and NVFP4, scales of rows and blocks, layers that stay in 16 bits: times and memory."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.memory import kept_bytes
from clustersim.kernels.narrow_gemms import narrow_inputs, narrow_layers, narrow_share
from clustersim.model import load_model
from clustersim.model.casts import Casts, Implementation, casts_of
from tests.kernels.test_fp8 import BATCH, INPUTS, OUTPUTS, ROWS, one_layer

READ, WRITTEN, WEIGHTS = float(BATCH * ROWS * INPUTS), float(BATCH * ROWS * OUTPUTS), float(INPUTS * OUTPUTS)
MX, NV = 1 + 1 / 32, 0.5 + 1 / 16
LLAMA = load_model("llama-3.1-8b")


@pytest.mark.parametrize(("precision", "beyond"), [("amp-mxfp8", 0.05), ("amp-nvfp4", 0.15)])
def test_a_large_product_goes_by_its_peak(precision: str, beyond: float) -> None:
    """Terms that do not go by the peak, such as bytes, weigh more where the peak is higher."""
    gpu, model = load_gpu("b200"), one_layer()
    casts = casts_of("te", 1, precision)
    wide = estimate_layers(model, gpu, BATCH, "amp-bf16").layers[0]
    narrow = estimate_layers(model, gpu, BATCH, precision, casts=casts).layers[0]
    constants = constants_of(gpu, "tensor")
    assert constants.products is not None
    gain = gpu.flop_per_s[precision] / gpu.flop_per_s["amp-bf16"] * narrow_share(constants, precision)
    rate = constants.shape.memory_efficiency * gpu.memory_bytes_per_s
    each, kernels = (2 + 2 * MX, 1) if precision == "amp-mxfp8" else (2 + 2 + 2 * NV, 2)
    casts_s = each * (READ + WEIGHTS) / rate + 2 * kernels * gpu.launch_s
    rest_s = narrow.forward_s - casts_s - constants.products.kernel_s
    assert rest_s == pytest.approx((wide.forward_s - constants.products.kernel_s) / gain, rel=beyond)


def test_the_share_of_the_peak_in_4_bits_is_that_of_the_tables() -> None:
    b200, v100 = (constants_of(load_gpu(name), "tensor") for name in ("b200", "v100"))
    assert narrow_share(b200, "amp-nvfp4") == 0.7707
    assert narrow_share(b200, "amp-mxfp8") == narrow_share(b200, "amp-fp8") == 0.9541
    assert narrow_share(v100, "amp-nvfp4") == 0.904


@pytest.mark.parametrize(
    ("kind", "forward", "data", "gradient"),
    [
        ("torchao-rowwise", 5 * (READ + WEIGHTS), 5 * (WRITTEN + WEIGHTS), 5 * (READ + WRITTEN)),
        ("torchao-mx", (2 + MX) * (READ + WEIGHTS), (2 + MX) * (WRITTEN + WEIGHTS), (2 + MX) * (READ + WRITTEN)),
        ("te-block", (4 + 8 / 128) * (READ + WEIGHTS), (4 + 8 / 128) * WRITTEN, 0.0),
        ("te-mx", (2 + 2 * MX) * (READ + WEIGHTS), (2 + 2 * MX) * WRITTEN, 0.0),
        ("te-nvfp4", (4 + 2 * NV) * (READ + WEIGHTS), (4 + 2 * NV) * WRITTEN, 0.0),
    ],
)
def test_casts_move_the_bytes_of_both_directions(
    kind: Implementation, forward: float, data: float, gradient: float
) -> None:
    casts = Casts(kind)
    moved = [
        casts.num_bytes * casts.elements(READ, WRITTEN, WEIGHTS, phase)[0]
        for phase in ("forward", "backward_data", "backward_weights")
    ]
    assert moved == pytest.approx([forward, data, gradient])


def test_rows_are_cast_once_more_than_whole_tensors() -> None:
    gpu, model = load_gpu("h100"), one_layer()
    whole, rows = (
        estimate_layers(model, gpu, BATCH, "amp-fp8", casts=casts_of(kind, 1)).layers[0]
        for kind in ("torchao", "torchao-rowwise")
    )
    rate = constants_of(gpu, "tensor").shape.memory_efficiency * gpu.memory_bytes_per_s
    assert rows.forward_s == whole.forward_s
    assert rows.backward_weights_s - whole.backward_weights_s == pytest.approx(5 * WRITTEN / rate + 2 * gpu.launch_s)


def test_a_shard_of_weights_is_read_once_and_written_in_8_bits() -> None:
    casts = casts_of("torchao-sharded", 1, num_shards=8)
    whole = casts_of("torchao", 1)
    for phase, kernels in (("forward", 3.0), ("backward_data", 3.0)):
        (sharded, num), (cast, _) = (each.elements(READ, WRITTEN, WEIGHTS, phase) for each in (casts, whole))
        assert 5 * (cast - sharded) == pytest.approx(5 * WEIGHTS - 3 * WEIGHTS / 8)
        assert num * casts.num_kernels == kernels
    assert casts.elements(READ, WRITTEN, WEIGHTS, "backward_weights") == (READ, 1.0)


def test_weights_are_cast_once_for_all_passes_where_they_are_cached() -> None:
    casts = casts_of("te-cached", 4, "amp-nvfp4")
    assert casts.elements(0.0, 0.0, WEIGHTS, "forward")[0] == WEIGHTS / 4


@pytest.mark.parametrize(("share", "wide"), [(0.0, 0), (0.16, 20), (1.0, 128)])
def test_the_last_linear_layers_stay_in_16_bits(share: float, wide: int) -> None:
    casts = casts_of("te", 1, "amp-nvfp4", share)
    narrow = narrow_layers(LLAMA.layers, "amp-nvfp4", casts)
    linear = [index for index, layer in enumerate(LLAMA.layers) if layer.op == "fully-connected"][:-1]
    assert len(linear) == 128
    assert [narrow[index] for index in linear] == [True] * (128 - wide) + [False] * wide
    assert sum(narrow) == 128 - wide
    gpu = load_gpu("b200")
    plain, mixed = (
        estimate_layers(LLAMA, gpu, 1, precision, casts=casts).layers for precision in ("amp-bf16", "amp-nvfp4")
    )
    changed = [index for index in linear if plain[index].forward_s != mixed[index].forward_s]
    assert changed == linear[: 128 - wide]


@pytest.mark.parametrize(("precision", "each"), [("amp-fp8", 2.0), ("amp-mxfp8", MX), ("amp-nvfp4", NV)])
def test_an_input_is_stored_in_the_format_of_its_gradient(precision: str, each: float) -> None:
    kept = dict(
        zip(
            (layer.name for layer in LLAMA.layers),
            kept_bytes(LLAMA, precision, True, narrow_inputs(LLAMA, precision, Casts("te"))),
            strict=True,
        )
    )
    tokens, features, between = 8192, 4096, 14_336
    assert kept["h.1.norm1"] == each * tokens * features
    assert kept["h.1.feed_forward.gate"] == each * tokens * between + 2 * tokens * between  # and the gate's other half
    assert kept["norm"] == 2 * tokens * features  # read by the head


def test_torchao_stores_what_it_reads() -> None:
    """mx_mm saves its arguments in 16 bits (torchao/prototype/mx_formats/mx_linear.py)."""
    assert [casts_of(kind, 1, "amp-mxfp8").stores_narrow for kind in ("torchao", "te")] == [False, True]
    wide, plain = (kept_bytes(LLAMA, name, narrow=narrow_inputs(LLAMA, name)) for name in ("amp-mxfp8", "amp-bf16"))
    assert wide == plain


def test_a_gpu_without_a_peak_is_refused() -> None:
    for precision in ("amp-mxfp8", "amp-nvfp4"):
        with pytest.raises(InputError, match=f"does not compute in {precision}"):
            estimate_layers(one_layer(), load_gpu("h100"), 1, precision)
    with pytest.raises(InputError, match="does not compute in amp-nvfp4"):
        estimate_layers(one_layer(), load_gpu("mi355x"), 1, "amp-nvfp4")


def test_what_is_assumed_of_the_peak_is_said() -> None:
    said = estimate_layers(one_layer(), load_gpu("b200"), 1, "amp-nvfp4").assumptions
    assert any("GEMMs in NVFP4 are assumed to reach 77%" in sentence for sentence in said)


@pytest.mark.parametrize("precision", ["amp-mxfp8", "amp-nvfp4"])
def test_all_layers_in_16_bits_are_bf16_in_memory_as_in_time(precision: str) -> None:
    def simulated(precision: str, wide: float | None, **layout: Any) -> Any:
        software = {"name": "plain", **({} if wide is None else {"casts": "te-cached", "wide_share": wide})}
        run = {"model": "llama-3.1-8b", "num_gpus": 4, "batch": {"global": 8}, "precision": precision}
        star = {"kind": "star", "num_hosts": 1, "host": {"template": "dgx-b200", "num_gpus": 4}, "link": "50 GB/s"}
        others = {"topology": star, "strategy": {"kind": "all-reduce"}, "num_iterations": 1, "memory_check": False}
        return clustersim.simulate({**run, **others, "software": software, "parallelism": layout})

    for layout in ({}, {"sharding": "zero-3"}, {"tensor": 2, "sequence_parallel": True}, {"pipeline": 2}):
        plain, wide, mixed = (
            simulated(*each, **layout) for each in (("amp-bf16", None), (precision, 1.0), (precision, 0.5))
        )
        assert wide.iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)
        assert wide.memory_parts == plain.memory_parts
        if "pipeline" not in layout:  # whose stages depend on times
            narrow = simulated(precision, 0.0, **layout)
            assert narrow.memory_bytes < mixed.memory_bytes < wide.memory_bytes
