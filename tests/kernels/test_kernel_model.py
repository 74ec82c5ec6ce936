"""The kernel model: a roofline with tiles, compared with measured kernels and networks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from clustersim.errors import InputError
from clustersim.hardware import GPUS, load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.convolution_kernels import convolution_gemms
from clustersim.kernels.kernel_constants import (
    FIT_FILE,
    KernelConstants,
    ShapeConstants,
    constants_for,
    constants_of,
    fit_document,
)
from clustersim.kernels.kernel_model import (
    PHASES,
    Gemm,
    GpuRates,
    Phase,
    gemm_seconds,
    linear_gemms,
    plain_gemm,
    rates_of,
    recurrent_gemms,
)
from clustersim.model import PRECISIONS, load_model

MATMULS = tuple(f"matmul_{phase}" for phase in PHASES)
IDEAL = KernelConstants(
    ShapeConstants(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0),
    dict.fromkeys((*MATMULS, *PHASES), 1.0), {}, {}, 1.0, "", tensor=False, assumed=False,
)  # fmt: skip
REAL = constants_for("maxwell", "ordinary")
RATES = GpuRates(6e12, memory_bytes_per_s=300e9, num_multiprocessors=16, launch_s=5e-6, ordinary_flop_per_s=6e12)
RES4 = {
    "channels": 256, "filters": 256, "height": 14, "width": 14, "kernel_h": 3, "kernel_w": 3, "stride_h": 1,
    "stride_w": 1, "pad_h": 1, "pad_w": 1, "groups": 1, "out_height": 14, "out_width": 14,
}  # fmt: skip
FC = {"rows": 1, "inputs": 4096, "outputs": 4096, "count": 1}


def seconds(products: list[Gemm], constants: KernelConstants = REAL, rates: GpuRates = RATES) -> float:
    return float(gemm_seconds(products, rates, constants).min())


def product(rows: float, columns: float, inner: float, num_bytes: float = 0.0) -> Gemm:
    return Gemm(rows, columns, inner, 1, num_bytes, 1.0, 0.0, 0.0, 0.0, 0.0)


def test_a_product_that_fills_every_multiprocessor_runs_at_peak() -> None:
    whole = product(128 * 4, 128 * 4, 1000)
    assert seconds([whole], IDEAL) == pytest.approx(whole.flop / RATES.flop_per_s, rel=1e-12)


def test_a_product_that_memory_bounds_takes_the_time_of_its_bytes() -> None:
    assert seconds([product(128, 128, 8, num_bytes=3e9)], IDEAL) == pytest.approx(3e9 / 300e9, rel=1e-12)


def test_one_tile_keeps_one_multiprocessor_busy_whatever_the_others_do() -> None:
    small = product(32, 32, 100_000)
    assert seconds([small], IDEAL) == pytest.approx(small.flop / (RATES.flop_per_s / 16), rel=1e-12)


def test_cutting_the_inner_dimension_fills_a_gpu_that_one_tile_leaves_idle() -> None:
    small = product(32, 32, 100_000)
    assert seconds([replace(small, can_split=True)], IDEAL) < seconds([small], IDEAL) / 8


def test_a_tile_too_many_costs_a_wave_of_tiles() -> None:
    tiles = [product(32 * n, 32, 10_000) for n in (16, 17, 32)]
    full, one_more, two = (seconds([tile], IDEAL) for tile in tiles)
    assert one_more == pytest.approx(2 * full)
    assert two == pytest.approx(2 * full)


def test_a_short_inner_dimension_pays_the_prologue_more_often() -> None:
    lengths = [replace(product(512, 512, inner), prologue=16.0) for inner in (16, 1600)]
    short, long = (item.flop / seconds([item], IDEAL) / RATES.flop_per_s for item in lengths)
    assert short == pytest.approx(16 / 32)
    assert long == pytest.approx(1600 / 1616)


@settings(deadline=None, max_examples=25)
@given(batch=st.integers(1, 200), phase=st.sampled_from(PHASES), times=st.integers(2, 5))
def test_a_batch_takes_longer_than_a_smaller_one_and_less_than_its_parts_apart(
    batch: int, phase: Phase, times: int
) -> None:
    for make, shape in ((convolution_gemms, RES4), (linear_gemms, FC)):
        one, next_one, many = (seconds(make(shape, size, phase, REAL)) for size in (batch, batch + 1, batch * times))
        assert one <= next_one * (1 + 1e-12)
        assert many <= times * one * (1 + 1e-12)


@settings(deadline=None, max_examples=25)
@given(batch=st.integers(1, 256), phase=st.sampled_from(PHASES))
def test_no_kernel_beats_the_peak_or_the_memory(batch: int, phase: Phase) -> None:
    for item in convolution_gemms(RES4, batch, phase, replace(REAL, winograd={})):
        taken = seconds([item])
        assert taken >= item.flop / RATES.flop_per_s
        assert taken >= item.num_bytes / RATES.memory_bytes_per_s


@settings(deadline=None, max_examples=25)
@given(batch=st.integers(1, 64), factor=st.floats(0.25, 8))
def test_a_gpu_faster_in_everything_is_faster_by_as_much(batch: int, factor: float) -> None:
    faster = GpuRates(6e12 * factor, 300e9 * factor, 16, 5e-6 / factor, 6e12 * factor)
    items = convolution_gemms(RES4, batch, "forward", REAL)
    assert seconds(items, rates=faster) == pytest.approx(seconds(items) / factor)


def test_a_convolution_counts_two_flop_a_multiply_add_in_every_phase() -> None:
    expected = 2.0 * 8 * 256 * 256 * 9 * 14 * 14
    for phase in PHASES:
        assert convolution_gemms(RES4, 8, phase, IDEAL)[0].flop == pytest.approx(expected)


def test_groups_divide_the_flop_of_a_convolution() -> None:
    whole, halved = (convolution_gemms({**RES4, "groups": groups}, 4, "forward", REAL)[0].flop for groups in (1, 2))
    assert halved == whole / 2


def test_a_stride_makes_the_gradient_of_data_slower_for_its_flop() -> None:
    shape = {**RES4, "kernel_h": 1, "kernel_w": 1}
    strided = {**shape, "stride_h": 2, "stride_w": 2, "out_height": 7, "out_width": 7}
    plain, late = (convolution_gemms(each, 32, "backward_data", IDEAL)[0] for each in (shape, strided))
    assert late.flop == plain.flop / 4
    late_real = convolution_gemms(strided, 32, "backward_data", REAL)[0]
    assert late_real.penalty == REAL.shape.strided_backward_data > 1


def test_winograd_is_for_three_by_three_convolutions_of_stride_one() -> None:
    assert len(convolution_gemms(RES4, 8, "forward", REAL)) == 2
    assert len(convolution_gemms({**RES4, "kernel_h": 5}, 8, "forward", REAL)) == 1
    assert len(convolution_gemms({**RES4, "stride_h": 2, "out_height": 7}, 8, "forward", REAL)) == 1
    assert len(convolution_gemms(RES4, 8, "forward", constants_for("volta", "tensor"))) == 1
    assert len(convolution_gemms(RES4, 8, "forward", constants_for("kepler", "ordinary"))) == 1
    assert len(convolution_gemms(RES4, 8, "forward", constants_of(load_gpu("k80"), "ordinary"))) == 2


def test_winograd_multiplies_two_and_a_quarter_times_less() -> None:
    direct, winograd = convolution_gemms(RES4, 8, "forward", REAL)
    assert direct.flop / winograd.flop == pytest.approx(2.25)


def test_fourier_transforms_are_for_large_filters_of_stride_one_and_multiply_as_often_as_frequencies_say() -> None:
    shape = {**RES4, "height": 28, "width": 28, "out_height": 28, "out_width": 28, "kernel_h": 5, "kernel_w": 5}
    direct, fourier = convolution_gemms(shape, 8, "forward", REAL)
    assert direct.flop == pytest.approx(2 * 8 * 28 * 28 * 25 * 256 * 256)
    assert fourier.flop == pytest.approx(
        8 * 8 * 32 * 17 * 256 * 256
    )  # a complex multiply-add is 8 FLOP; one tile an image
    assert fourier.layout_bytes == 2 * 8 * 32 * 17 * (2 * 8 * 256 + 256 * 256)  # complex numbers, written and read
    assert len(convolution_gemms(shape, 8, "backward_weights", REAL)) == 1
    assert len(convolution_gemms({**shape, "stride_h": 2, "out_height": 14}, 8, "forward", REAL)) == 1
    assert len(convolution_gemms(shape, 8, "forward", constants_for("volta", "tensor"))) == 1


def test_tensor_cores_leave_channels_that_are_not_aligned_to_the_ordinary_units() -> None:
    volta = constants_for("volta", "tensor")
    for channels, element_bytes, ordinary in ((3, 2.0, True), (8, 2.0, False), (4, 2.0, True), (4, 4.0, False)):
        item = convolution_gemms({**RES4, "channels": channels}, 8, "forward", volta, element_bytes)[0]
        assert item.ordinary == ordinary
    assert not convolution_gemms({**RES4, "channels": 3}, 8, "forward", REAL)[0].ordinary
    rates = GpuRates(100e12, 900e9, 80, 0.0, 10e12)
    odd, even = (product(128 * 80, 128, 1000), replace(product(128 * 80, 128, 1000), ordinary=True))
    assert seconds([even], IDEAL, rates) == pytest.approx(10 * seconds([odd], IDEAL, rates))


def test_tensor_cores_have_convolutions_of_324_filters_as_those_of_328_and_a_copy_of_the_outputs() -> None:
    volta, ampere = constants_for("volta", "tensor"), constants_for("ampere", "tensor")
    for phase in PHASES:
        ordinary, padded = convolution_gemms({**RES4, "filters": 324}, 8, phase, volta, 2.0)
        (whole,) = convolution_gemms({**RES4, "filters": 328}, 8, phase, volta, 2.0)
        assert ordinary.ordinary
        assert padded == replace(whole, layout_bytes=2 * 8 * 14 * 14 * (324 + 328))  # read wide, written narrow
        _, turned = convolution_gemms({**RES4, "filters": 324}, 8, phase, ampere, 2.0)
        assert [turned] == convolution_gemms({**RES4, "filters": 328}, 8, phase, ampere, 2.0)  # filled on the way


def test_channels_fewer_than_a_filling_and_those_of_groups_are_not_filled_up_for_tensor_cores() -> None:
    volta = constants_for("volta", "tensor")
    for change in ({"channels": 3}, {"filters": 4}, {"channels": 324, "filters": 324, "groups": 3}):
        assert [each.ordinary for each in convolution_gemms({**RES4, **change}, 8, "forward", volta, 2.0)] == [True]
    in_tf32 = convolution_gemms({**RES4, "filters": 6}, 8, "forward", constants_for("hopper", "tensor"), 4.0)
    assert [each.rows for each in in_tf32] == [6, 8]


def test_from_ampere_on_a_convolution_turns_its_tensors_over_and_a_pointwise_one_in_16_bits_alone() -> None:
    hopper = constants_for("hopper", "tensor")
    moved = 4.0 * 8 * 14 * 14 * (256 + 256)
    assert convolution_gemms(RES4, 8, "forward", hopper)[0].layout_bytes == pytest.approx(2 * moved)
    pointwise = {**RES4, "kernel_h": 1, "kernel_w": 1}
    assert convolution_gemms(pointwise, 8, "forward", hopper)[0].layout_bytes == 0
    assert convolution_gemms(pointwise, 8, "forward", hopper, 2.0)[0].layout_bytes == pytest.approx(moved)
    turned = replace(product(128 * 16, 128, 1000), layout_bytes=3e9)
    assert seconds([turned], IDEAL) == pytest.approx(seconds([replace(turned, layout_bytes=0)], IDEAL) + 3e9 / 300e9)


def test_a_large_transposed_operand_is_slower_on_a_chip_whose_address_translation_does_not_reach() -> None:
    slow = replace(IDEAL, shape=replace(IDEAL.shape, far_operand=2.0, far_column=3.0, far_power_of_two=1.5))
    layer = {"rows": 1, "inputs": 2560, "outputs": 4096, "count": 1}
    assert linear_gemms(layer, 640, "forward", slow)[0].penalty == 2
    assert linear_gemms(layer, 64, "forward", slow)[0].penalty == 3
    assert linear_gemms({**layer, "inputs": 4096}, 64, "forward", slow)[0].penalty == 1.5
    assert linear_gemms(layer, 64, "backward_data", slow)[0].penalty == 1
    assert linear_gemms({**layer, "outputs": 1024}, 64, "forward", slow)[0].penalty == 1


def test_rows_that_no_vector_load_fits_are_slower() -> None:
    slow = replace(IDEAL, shape=replace(IDEAL.shape, ragged_rows=1.5))
    for outputs, penalty in ((35, 1.5), (50257, 1.5), (1000, 1), (5124, 1)):
        assert linear_gemms({**FC, "outputs": outputs}, 64, "forward", slow)[0].penalty == penalty
        assert linear_gemms({**FC, "outputs": outputs}, 64, "backward_data", slow)[0].penalty == 1


def test_pascals_kernel_for_few_columns_takes_the_time_of_its_matrix_and_is_not_left_for_a_quicker_one() -> None:
    """cuBLAS 8 took it up to 16 columns: on a P100 8,448 x 16 x 2,816 lasted three times as long as with 32 columns."""
    thin = replace(IDEAL, shape=replace(IDEAL.shape, thin_traffic=5.0))
    few, more = (linear_gemms(FC, columns, "forward", thin)[0] for columns in (16, 17))
    assert seconds([few], thin) == pytest.approx(4 * (5 * 4096**2 + 2 * 16 * 4096) / 300e9)
    assert seconds([more], thin) < seconds([few], thin)
    assert linear_gemms(FC, 16, "backward_weights", thin)[0].num_bytes < few.num_bytes
    chips = fit_document()["chips"]
    assert {name for name, chip in chips.items() if chip["shape"]["thin_traffic"]} == {"gp100", "gp102"}


def test_channels_that_tensor_cores_cannot_have_are_filled_up_to_four() -> None:
    volta = constants_for("volta", "tensor")
    for phase in PHASES:
        colours, four, one = (
            convolution_gemms({**RES4, "channels": channels}, 8, phase, volta, 2.0)[0] for channels in (3, 4, 1)
        )
        assert colours.flop == pytest.approx(four.flop) == pytest.approx(one.flop)


def test_tensor_core_convolutions_can_cut_their_inner_dimension_forward() -> None:
    for units, can_split in (("tensor", True), ("ordinary", False)):
        assert convolution_gemms(RES4, 8, "forward", constants_for("volta", units), 2.0)[0].can_split == can_split


def test_no_tile_of_a_convolution_is_smaller_than_the_library_has() -> None:
    small = product(32, 32, 10_000)
    assert seconds([replace(small, min_tile=4096)], IDEAL) == pytest.approx(4 * seconds([small], IDEAL))


def test_a_recurrent_layer_goes_token_by_token_but_adds_its_weights_gradient_at_once() -> None:
    shape = {"rows": 1, "inputs": 1024, "outputs": 2048, "count": 20}
    forward, weights = (recurrent_gemms(shape, 16, phase, REAL)[0] for phase in ("forward", "backward_weights"))
    one = recurrent_gemms({**shape, "count": 1}, 16, "forward", REAL)
    assert seconds([forward]) == pytest.approx(20 * seconds(one))
    assert (weights.inner, weights.repeats) == (20 * 16, 1)
    assert forward.flop == weights.flop == 2.0 * 16 * 20 * 1024 * 2048


def test_no_products_take_no_time() -> None:
    assert gemm_seconds([], RATES, REAL).shape == (0,)


def test_every_architecture_of_a_sheet_has_constants() -> None:
    for name in GPUS:
        gpu = load_gpu(name)
        for precision in set(gpu.flop_per_s) & set(PRECISIONS):
            constants = constants_of(gpu, PRECISIONS[precision].units)
            assert all(0 < share <= 1 for share in constants.efficiency.values())
            assert constants.source


def test_constants_of_an_architecture_without_timings_are_assumed() -> None:
    timed = {"kepler", "maxwell", "pascal", "volta"}
    for name in fit_document()["architectures"]:
        assert constants_for(name, "ordinary").assumed == (name not in timed)
    assert constants_for("fermi", "ordinary").efficiency == constants_for("kepler", "ordinary").efficiency
    assert not constants_for("hopper", "tensor").assumed
    assert not constants_for("ampere", "tensor").assumed


def test_a_gpu_takes_its_own_chips_constants_where_those_were_timed() -> None:
    chips = fit_document()["chips"]
    assert constants_of(load_gpu("p100"), "ordinary").efficiency == chips["gp100"]["efficiency"]
    assert constants_of(load_gpu("gtx-1080-ti"), "ordinary").efficiency == chips["gp102"]["efficiency"]


def test_published_rates_of_products_are_met_where_no_launch_is_in_them() -> None:
    """64 rates of 20 us and longer by six sources, to which nothing was fitted."""
    rates = errors_of_the_fit()["published_rates"]
    for name, kernels, median in (("h100", 38, 0.05), ("a100", 26, 0.08)):
        row = rates[f"{name}, 20 us and longer"]
        assert row["kernels"] == kernels
        assert row["median"] < median
        assert abs(row["bias"]) < 0.05


def test_an_unknown_architecture_and_missing_tensor_cores_are_refused() -> None:
    with pytest.raises(InputError, match="no GPU architecture is called 'keppler'; did you mean 'kepler'"):
        constants_for("keppler", "ordinary")
    with pytest.raises(InputError, match="no kernel of kepler with tensor units is known"):
        constants_for("kepler", "tensor")


def errors_of_the_fit() -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(FIT_FILE.with_name("kernel_errors.yaml").read_text(encoding="utf-8"))


def test_kernels_left_out_of_the_fit_are_met_as_the_goals_ask() -> None:
    """Geometric mean of the factor by which a kernel is off: at most 25 % in the fit, 40 % on a GPU never seen."""
    errors = errors_of_the_fit()
    gpus = ("m40", "p100-pcie", "titan-x-maxwell", "titan-x-pascal", "v100")
    left_out = [errors["left_out"][f"{name} fp32"] for name in gpus]
    assert all(row["kernels"] == 432 for row in left_out)
    assert all(row["median"] < 0.2 and row["geometric_mean"] < 0.25 and abs(row["bias"]) < 0.1 for row in left_out)
    assert errors["left_out"]["v100 amp-fp16"]["geometric_mean"] < 0.25
    assert errors["left_out"]["h100 tf32, vgg13"]["geometric_mean"] < 0.25
    assert all(errors["never_seen"][f"{name} fp32"]["geometric_mean"] < 0.4 for name in gpus)


def test_phases_on_tensor_cores_are_met_less_well_and_that_is_bounded_too() -> None:
    """Wider: cuDNN 7 had a tensor-core kernel for some convolutions only, and which gradients of weights took one
    cannot be determined from their shapes, so those are off by 38 %. TF32 has one network, whose 19 kernels are all
    left out.
    """
    left_out = errors_of_the_fit()["left_out"]
    bounds = {
        "v100 amp-fp16": 0.25, "v100 amp-fp16, products": 0.2, "v100 amp-fp16, forward": 0.25,
        "v100 amp-fp16, backward_data": 0.3, "v100 amp-fp16, backward_weights": 0.4, "h100 tf32, vgg13": 0.25,
    }  # fmt: skip
    assert {name for name in left_out if "fp32" not in name} == set(bounds)
    for name, bound in bounds.items():
        assert left_out[name]["geometric_mean"] < bound
        assert left_out[name]["median"] < 0.25
        assert abs(left_out[name]["bias"]) < 0.1


def test_networks_that_no_fit_has_seen_are_predicted_from_sheets_as_the_goal_asks() -> None:
    """Geometric mean at most 30 %, and nothing twice too fast or too slow, at the largest batch that was published."""
    networks = errors_of_the_fit()["whole_networks"]["networks"]
    wanted = {"alexnet", "googlenet", "vgg16", "resnet50", "inception-v3"}
    gpus = {"k80", "titan-x-maxwell", "titan-x-pascal", "p100", "v100", "v100-32gb"}
    errors = {name: list(batches.values())[-1] for name, batches in networks.items()}
    asked = [
        size
        for name, size in errors.items()
        if name.split()[0] in wanted and name.split()[1] in gpus and name.split()[2] == "fp32"
    ]
    assert len(asked) > 20
    assert math.expm1(math.fsum(abs(size) for size in asked) / len(asked)) < 0.2
    assert math.expm1(math.fsum(abs(size) for size in errors.values()) / len(errors)) < 0.2
    assert max(abs(size) for size in errors.values()) < math.log(2)


def test_networks_on_a_k40_take_longer_than_predicted_by_a_third_at_most() -> None:
    """Wider than others: its two networks are Caffe's, whose iteration has more than kernels in it, and Kepler's
    constants stand on a Titan Black's 14 kernels; both networks are predicted too fast, by 28 to 34 %.
    """
    whole = errors_of_the_fit()["whole_networks"]
    assert whole["summary"]["k40 fp32"]["geometric_mean"] < 0.35
    errors = [error for name, sizes in whole["networks"].items() if " k40 " in name for error in sizes.values()]
    assert len(errors) == 3
    assert all(-0.3 < error < 0 for error in errors)


# GPU, phase that asks for it, rows, columns, inner dimension, milliseconds: every 12th FP32 product of DeepBench
# (baidu-research/DeepBench at da81ba7, results/train, Apache-2.0) whose shape was left out of the fit, sorted.
LEFT_OUT: list[tuple[str, Phase, int, int, int, float]] = [
    ("m40", "backward_data", 35, 8457, 2560, 1.316),
    ("m40", "backward_data", 2560, 128, 2560, 0.443),
    ("m40", "forward", 512, 48000, 1530, 15.984),
    ("m40", "forward", 8448, 32, 2816, 1.078),
    ("p100-pcie", "backward_data", 2560, 16, 2560, 0.106),
    ("p100-pcie", "forward", 512, 8, 500000, 7.083),
    ("p100-pcie", "forward", 2560, 7000, 2560, 10.425),
    ("titan-x-maxwell", "backward_data", 1024, 16, 500000, 19.754),
    ("titan-x-maxwell", "backward_data", 8448, 48000, 2816, 438.244),
    ("titan-x-maxwell", "forward", 2560, 32, 2560, 0.349),
    ("titan-x-pascal", "backward_data", 512, 24000, 1530, 3.9),
    ("titan-x-pascal", "backward_data", 8448, 16, 2816, 1.048),
    ("titan-x-pascal", "forward", 1024, 24000, 1530, 7.905),
    ("v100", "backward_data", 35, 8457, 2560, 0.26),
    ("v100", "backward_data", 2560, 128, 2560, 0.128),
    ("v100", "forward", 512, 48000, 1530, 6.132),
    ("v100", "forward", 8448, 32, 2816, 0.172),
]


def test_products_left_out_of_the_fit_take_what_was_measured_to_the_stated_error() -> None:
    """Computed anew, so that a change of the model shows; the stored residual of the median product is about 0.1."""
    errors = []
    for name, phase, rows, columns, inner, milliseconds in LEFT_OUT:
        gpu = load_gpu(name)
        constants = constants_of(gpu, "ordinary")
        item = plain_gemm(rows, columns, inner, 1, phase, constants)
        errors.append(math.log(seconds([item], constants, rates_of(gpu, "fp32")) * 1e3 / milliseconds))
    sizes = sorted(abs(error) for error in errors)
    assert sizes[len(sizes) // 2] < 0.2
    assert sizes[int(0.9 * len(sizes))] < 0.7
    assert abs(math.fsum(errors) / len(errors)) < 0.15


def network_s(model: str, gpu: str, batch: int, precision: str = "fp32") -> float:
    layers = estimate_layers(load_model(model), load_gpu(gpu), batch, precision).layers
    return math.fsum(layer.forward_s + layer.backward_s for layer in layers)


@pytest.mark.parametrize(
    ("model", "gpu", "batch", "measured_s", "tolerance"),
    [
        ("googlenet", "titan-x-maxwell", 16, 0.06568, 0.15),  # cnn-benchmarks, Torch, cuDNN 5.0
        ("googlenet", "gtx-1080-ti", 16, 0.03687, 0.15),  # cnn-benchmarks, Torch, cuDNN 5.1
        ("resnet50", "titan-x-maxwell", 16, 0.16605, 0.15),  # cnn-benchmarks, Torch, cuDNN 5.0
        ("resnet50", "titan-x-pascal", 16, 0.10578, 0.25),  # cnn-benchmarks, Torch, cuDNN 5.0
        ("resnet50", "k80", 32, 32 / 49.48, 0.15),  # MXNet
        ("inception-v3", "k80", 32, 32 / 33.78, 0.15),  # MXNet
        ("resnet50", "v100", 128, 128 / 363.69, 0.15),  # MXNet
    ],
)
def test_whole_networks_that_nothing_was_fitted_to(
    model: str, gpu: str, batch: int, measured_s: float, tolerance: float
) -> None:
    assert network_s(model, gpu, batch) == pytest.approx(measured_s, rel=tolerance)


@pytest.mark.parametrize(
    ("gpu", "batch", "images_per_s", "low", "high"),
    [
        ("p100", 64, 142, 0.75, 0.9),  # TensorFlow at commit b1e174e, 2017
        ("k80", 64, 30.5, 0.75, 0.9),  # the same
        ("k80", 32, 33.78, 0.9, 1.0),  # MXNet, the same cuDNN 5.1
        ("v100", 128, 253.68, 0.9, 1.0),  # MXNet
    ],
)
def test_inception_v3_takes_as_long_as_its_kernels_but_in_tensorflow_of_2017(
    gpu: str, batch: int, images_per_s: float, low: float, high: float
) -> None:
    """What is missing is not in the kernels: one TensorFlow was slower than them by as much on a P100 and on a K80."""
    assert low < network_s("inception-v3", gpu, batch) * images_per_s / batch < high


def test_a_small_batch_costs_a_kepler_more_for_each_image() -> None:
    """Caffe's GoogLeNet on a K40m took 694 ms at batch 64 and 1364 at 128 (PaddlePaddle's benchmark): 24 ms, and 10.5
    an image, so 1.2 times as much for each image at 8 as at 32."""
    slower = 4 * network_s("googlenet-aux", "k20x", 8) / network_s("googlenet-aux", "k20x", 32)
    assert 1.1 < slower < 1.3


def test_layers_without_shapes_run_at_a_large_products_rate_and_say_so() -> None:
    model = load_model("vgg16")
    bare = replace(model, layers=tuple(replace(layer, shape={}) for layer in model.layers))
    estimate = estimate_layers(bare, load_gpu("k40"), 4, "fp32")
    assert any("without a shape" in sentence for sentence in estimate.assumptions)
    matmul = constants_for("kepler", "ordinary").efficiency["matmul_forward"]
    conv = next(layer for layer in estimate.layers if layer.layer.op == "convolution" and layer.backward_data_s)
    assert conv.forward_s == pytest.approx(4 * conv.layer.flop / (matmul * 4.29e12) + 6e-6, rel=0.01)


def test_the_first_layer_has_no_gradient_of_data() -> None:
    first = estimate_layers(load_model("resnet50"), load_gpu("p100"), 8, "fp32").layers[0]
    assert first.backward_data_s == 0
    assert first.backward_weights_s > 0


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InputError, match="a batch has at least one sample"):
        estimate_layers(load_model("nin"), load_gpu("k20"), 0, "fp32")
