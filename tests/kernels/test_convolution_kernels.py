"""Convolutions without cuDNN: im2col and a GEMM per image, compared with measurements."""

from __future__ import annotations

import math

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload
from clustersim.kernels.convolution_kernels import DEPTHWISE_SHARE, convolution_gemms, im2col_gemms
from clustersim.kernels.kernel_constants import constants_for, constants_of
from clustersim.kernels.kernel_model import PHASES
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.model import load_model
from clustersim.model.builder import Builder
from clustersim.simulate.setup import alone_s

MAXWELL = constants_for("maxwell", "ordinary")
SHAPE = {
    "channels": 64, "filters": 128, "height": 28, "width": 28, "kernel_h": 3, "kernel_w": 3, "stride_h": 1,
    "stride_w": 1, "pad_h": 1, "pad_w": 1, "groups": 1, "out_height": 28, "out_width": 28,
}  # fmt: skip


@pytest.mark.parametrize("groups", [1, 2])
def test_unrolling_multiplies_as_often_as_the_convolution_does(groups: int) -> None:
    shape = {**SHAPE, "groups": groups}
    for phase in PHASES:
        (unrolled,) = im2col_gemms(shape, 8, phase, MAXWELL)
        assert unrolled.flop == pytest.approx(convolution_gemms(shape, 8, phase, MAXWELL)[0].flop)
        assert unrolled.repeats == 8 * groups


def test_unrolling_writes_every_window_of_every_image_and_a_pointwise_convolution_none() -> None:
    (unrolled,) = im2col_gemms(SHAPE, 8, "forward", MAXWELL)
    assert unrolled.layout_bytes == 4 * (64 * 9 * 28 * 28 + 64 * 28 * 28)
    (pointwise,) = im2col_gemms({**SHAPE, "kernel_h": 1, "kernel_w": 1}, 8, "forward", MAXWELL)
    assert pointwise.layout_bytes == 0
    assert pointwise.launches == unrolled.launches - 1


def network_s(model: str, gpu: str, batch: int, library: Library) -> float:
    layers = estimate_layers(load_model(model), load_gpu(gpu), batch, "fp32", library=library).layers
    return math.fsum(layer.forward_s + layer.backward_s for layer in layers)


# Nothing was fitted to these. Milliseconds forward and backward: jcjohnson/cnn-benchmarks, Torch without cuDNN, at
# batch 16; soumith/convnet-benchmarks, "Caffe (native)"; Caffe, docs/performance_hardware.md, 20 iterations of 256.
WITHOUT_CUDNN = [
    ("caffenet", "k40", 256, 1325.0),
    ("caffenet", "k20", 256, 1800.0),
    ("alexnet", "titan-x-maxwell", 128, 324.0),
    ("vgg11", "titan-x-maxwell", 64, 1068.0),
    ("googlenet", "titan-x-maxwell", 16, 232.1),
    ("resnet50", "titan-x-maxwell", 16, 384.8),
    ("vgg16", "titan-x-maxwell", 16, 588.5),
    ("googlenet", "titan-x-pascal", 16, 143.4),
    ("resnet50", "titan-x-pascal", 16, 246.6),
    ("vgg16", "titan-x-pascal", 16, 358.5),
]


def test_networks_without_cudnn_take_what_was_measured_to_a_quarter() -> None:
    errors = [
        math.log(network_s(model, gpu, batch, "unrolled") * 1e3 / milliseconds)
        for model, gpu, batch, milliseconds in WITHOUT_CUDNN
    ]
    assert math.expm1(math.fsum(abs(error) for error in errors) / len(errors)) < 0.15
    assert max(abs(error) for error in errors) < 0.25


@pytest.mark.parametrize(("model", "gpu", "batch"), [row[:3] for row in WITHOUT_CUDNN])
def test_cudnn_makes_a_network_faster_by_what_was_published(model: str, gpu: str, batch: int) -> None:
    """1.38 times for CaffeNet on a K40 (Caffe's page), 2 to 4 in convnet-benchmarks and cnn-benchmarks."""
    speedup = network_s(model, gpu, batch, "unrolled") / network_s(model, gpu, batch, "cudnn")
    assert 1.3 < speedup < 4.5


def test_a_scenario_chooses_the_library_of_its_estimates() -> None:
    def seconds(compute: ComputeSpec) -> float:
        model, gpu = load_model("caffenet"), load_gpu("k40")
        return alone_s(build_workload(model, gpu, 256, "fp32", OptimizerSpec(), compute))

    unrolled = seconds(ComputeSpec(library="unrolled"))
    assert unrolled == pytest.approx(network_s("caffenet", "k40", 256, "unrolled"), rel=0.02)
    assert seconds(ComputeSpec()) == pytest.approx(256 / 266.667)  # Caffe with cuDNN, as published
    rate = {"samples_per_s": 190, "batch": 256, "source": "a benchmark"}
    scaled = ComputeSpec.model_validate({"library": "unrolled", "single_gpu": rate})
    assert seconds(scaled) == pytest.approx(256 / 190)


def test_a_profile_has_a_library_of_its_own() -> None:
    with pytest.raises(ValueError, match="drop library, or profile"):
        ComputeSpec(library="unrolled", profile="measured.json")


def test_a_depthwise_convolution_takes_its_flop_or_its_bytes_in_any_phase() -> None:
    """1,024 channels of 56 x 56 and windows of 7 x 7 are bound by FLOP, single ones by bytes."""
    gpu = load_gpu("v100")
    for side, is_bound_by_bytes in ((7, False), (1, True)):
        net = Builder("one", "one")
        x = net.conv("first", net.input(3, 56, 56), 1024, 1)
        net.conv("depthwise", x, 1024, side, pad=side // 2, groups=1024)
        time = estimate_layers(net.model(), gpu, 32, "fp32").layers[1]
        places = 32 * 1024 * 56 * 56
        expected_s = 2 * places * side**2 / (DEPTHWISE_SHARE * gpu.flop_per_s["fp32"])
        if is_bound_by_bytes:
            rate = constants_of(gpu, "ordinary").shape.memory_efficiency * gpu.memory_bytes_per_s
            expected_s = 4 * (2 * places + 1024) / rate
        for found_s in (time.forward_s, time.backward_data_s, time.backward_weights_s):
            assert expected_s <= found_s < 1.05 * expected_s


def test_an_assumption_names_depthwise_convolutions() -> None:
    net = Builder("one", "one")
    net.conv("depthwise", net.input(8, 56, 56), 8, 3, pad=1, groups=8)
    found = estimate_layers(net.model(), load_gpu("v100"), 1, "fp32").assumptions
    assert (
        "1 depthwise convolutions (such as 'depthwise') are assumed to reach 25% of the ordinary units' peak." in found
    )
