"""Channels-last images, and batch norms fused with the operations behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload
from clustersim.kernels.convolution_kernels import convolution_gemms
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.kernel_constants import constants_for, constants_of
from clustersim.kernels.kernel_model import PHASES, gemm_seconds, rates_of
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.kernels.programs.channels_last import Layout, constants_in, fused_norms
from clustersim.model import LayerTime, Workload, load_model
from clustersim.model.precision import PRECISIONS
from clustersim.program.issue import NOT_ISSUED, issue_times
from clustersim.simulate.setup import alone_s
from clustersim.software import load_host, load_software

A100, V100 = load_gpu("a100-40gb"), load_gpu("v100")
RESNET = load_model("resnet50")


def total_s(
    model: str, gpu: str, batch: int, precision: str, layout: Layout = "nchw", library: Library = "cudnn"
) -> float:
    layers = estimate_layers(load_model(model), load_gpu(gpu), batch, precision, library=library, layout=layout).layers
    return math.fsum(layer.forward_s + layer.backward_s for layer in layers)


def built(compute: ComputeSpec, model: str = "resnet50", batch: int = 448, gpu: str = "a100-40gb") -> Workload:
    kind = OptimizerSpec.model_validate({"kind": "sgd"})
    return build_workload(load_model(model), load_gpu(gpu), batch, "amp-fp16", kind, compute)


def test_channels_last_save_what_turning_images_over_takes_what_norms_move_less_and_nothing_else() -> None:
    constants = constants_of(A100, "tensor")
    first, last = (estimate_layers(RESNET, A100, 64, "amp-fp16", layout=layout).layers for layout in ("nchw", "nhwc"))
    rate = constants.shape.memory_efficiency * A100.memory_bytes_per_s
    for before, after in zip(first, last, strict=True):
        saved_s = before.forward_s + before.backward_s - after.forward_s - after.backward_s
        if before.layer.op == "batch-norm":
            passes = [sum(t) for t in (*constants.element_wise["batch-norm"], *constants.channels_last["batch-norm"])]
            moved = 2.0 * 64 * before.layer.input_elements * (passes[0] + passes[1] - passes[2] - passes[3])
            assert saved_s == pytest.approx(moved / (constants.memory_efficiency * A100.memory_bytes_per_s))
            continue
        if before.layer.op != "convolution":
            assert saved_s == pytest.approx(0, abs=1e-15)
            continue
        if before.layer.shape["channels"] < 8:  # copied into more channels instead
            continue
        turned = (convolution_gemms(before.layer.shape, 64, phase, constants, 2.0)[0].layout_bytes for phase in PHASES)
        assert saved_s == pytest.approx(sum(turned) / rate)


COLOURS = {
    "channels": 3, "filters": 64, "height": 224, "width": 224, "kernel_h": 7, "kernel_w": 7, "stride_h": 2,
    "stride_w": 2, "pad_h": 3, "pad_w": 3, "groups": 1, "out_height": 112, "out_width": 112,
}  # fmt: skip
HALF, TF32 = PRECISIONS["amp-fp16"], PRECISIONS["tf32"]


def test_three_colours_at_a_stride_of_two_are_filled_up_to_four_for_tensor_cores() -> None:
    known = constants_in("nhwc", constants_of(A100, "tensor"), HALF)
    for phase in ("forward", "backward_weights"):
        ordinary, filled = convolution_gemms(COLOURS, 8, phase, known, 2.0)
        assert ordinary.ordinary
        assert not filled.ordinary
        assert filled.layout_bytes == 2 * 8 * 224 * 224 * (3 + 4)  # read with 3 channels, written with 4
        assert filled.flop * 3 == pytest.approx(2 * 8 * 112 * 112 * 64 * 49 * 3 * 4)
    for change in ({"stride_h": 1}, {"stride_w": 4, "stride_h": 4}, {"channels": 6}, {"groups": 3, "channels": 6}):
        assert [each.ordinary for each in convolution_gemms({**COLOURS, **change}, 8, "forward", known, 2.0)] == [True]


def test_few_channels_are_padded_in_16_bits_channels_last_and_where_images_are_transposed() -> None:
    volta, ampere = constants_for("volta", "tensor"), constants_for("ampere", "tensor")
    layouts: tuple[Layout, Layout] = ("nchw", "nhwc")
    assert [constants_in(layout, volta, HALF).pads_to_four_channels for layout in layouts] == [False, True]
    assert [constants_in(layout, ampere, HALF).pads_to_four_channels for layout in layouts] == [True, True]
    assert not constants_in("nhwc", ampere, TF32).pads_to_four_channels
    assert not constants_in("nhwc", constants_for("volta", "ordinary"), HALF).pads_to_four_channels


def test_the_first_layers_gradient_takes_what_cudnns_and_cutlass_kernels_were_timed_to_take() -> None:
    """NVIDIA/cutlass, issue 793: an A100, 128 images of 4 channels, 0.459 ms in cuDNN's kernel, 1.31 in CUTLASS's."""
    known = constants_in("nhwc", constants_of(A100, "tensor"), HALF)
    shape = {**COLOURS, "channels": 4}
    found = convolution_gemms(shape, 128, "backward_weights", known, 2.0)
    assert 0.459e-3 < gemm_seconds(found, rates_of(A100, "amp-fp16"), known).min() < 1.31e-3


def test_ordinary_units_beside_an_a100s_tensor_cores_have_voltas_prologue() -> None:
    ampere, volta = constants_for("ampere", "tensor"), constants_for("volta", "tensor")
    alone = convolution_gemms({**COLOURS, "stride_h": 1}, 8, "forward", ampere, 2.0)[0]
    assert alone.prologue == volta.shape.convolution_prologue
    whole = convolution_gemms({**COLOURS, "channels": 64}, 8, "forward", ampere, 2.0)[0]
    assert whole.prologue == ampere.shape.convolution_prologue


def test_norms_of_16_bits_move_less_with_channels_last_but_no_less_than_they_must() -> None:
    ampere = constants_for("ampere", "tensor")
    first, last = (constants_in(layout, ampere, HALF).element_wise["batch-norm"] for layout in ("nchw", "nhwc"))
    for must, before, after in zip((3, 5), first, last, strict=True):
        assert must < sum(after) < sum(before)
    assert constants_in("nhwc", ampere, TF32).element_wise["batch-norm"] == first


@pytest.mark.parametrize(
    ("gpu", "milliseconds"),
    [("a100-40gb", (3.279, 8.544)), ("v100-32gb", (5.595, 14.216))],  # xwang233/code-snippet, a9840ad3 (fitted to)
)
def test_a_norm_takes_what_pytorchs_was_timed_to_take_with_channels_last(
    gpu: str, milliseconds: tuple[float, float]
) -> None:
    card = load_gpu(gpu)
    known = constants_in("nhwc", constants_of(card, "tensor"), HALF)
    num_bytes, rate = 2.0 * 8 * 64 * 112**3, known.memory_efficiency * card.memory_bytes_per_s
    added_s = 3 * num_bytes / rate  # the gradient is added to the one before
    for traffic, extra_s, measured in zip(known.element_wise["batch-norm"], (0.0, added_s), milliseconds, strict=True):
        assert sum(traffic) * num_bytes / rate + extra_s == pytest.approx(measured * 1e-3, rel=0.05)


@pytest.mark.parametrize(
    ("layout", "images_per_s"),
    [("nchw", 1450), ("nhwc", 2150)],  # one A100, PyTorch, batch 200: NVIDIA/apex, issue 1445 (fitted to)
)
def test_one_a100_gains_by_channels_last_what_pytorch_gained(layout: Layout, images_per_s: float) -> None:
    assert 200 / total_s("resnet50", "a100-40gb", 200, "amp-fp16", layout) == pytest.approx(images_per_s, rel=0.1)


@pytest.mark.parametrize(
    ("model", "batch", "images_per_s"),
    [("alexnet", 3584, 16487), ("resnet50", 448, 2075), ("resnet152", 200, 886), ("vgg16", 448, 1190)],
)
def test_one_a100_trains_other_networks_channels_last_at_published_rates(
    model: str, batch: int, images_per_s: float
) -> None:
    """TensorFlow in fp16 (lambdal/lambda-tensorflow-benchmark); Inception-v3 comes out a third too quick."""
    assert batch / total_s(model, "a100-40gb", batch, "amp-fp16", "nhwc") == pytest.approx(images_per_s, rel=0.12)


def test_a_relu_and_a_sum_go_with_the_batch_norm_before_them() -> None:
    names = [layer.name for layer in RESNET.layers]
    kinds = dict(zip(names, fused_norms(RESNET.layers), strict=True))
    assert (kinds["bn1"], kinds["relu1"]) == ("", "joined")
    first = [kinds[f"layer1.0.{name}"] for name in ("bn3", "downsample.0", "downsample.1", "add", "relu")]
    assert first == ["", "", "adds", "joined", "joined"]
    assert [kinds[f"layer1.1.{name}"] for name in ("bn3", "add", "relu")] == ["adds", "joined", "joined"]
    assert not any(fused_norms(load_model("vgg16").layers))


def test_what_is_joined_takes_no_time_and_the_norm_moves_the_other_term() -> None:
    plain, fused = (
        {
            layer.layer.name: layer
            for layer in estimate_layers(RESNET, A100, 64, "amp-fp16", layout="nhwc", library=each).layers
        }
        for each in ("cudnn", "cudnn-fused")
    )
    assert fused["layer1.1.add"].forward_s == fused["layer1.1.relu"].backward_s == 0
    assert fused["layer1.1.bn1"] == plain["layer1.1.bn1"]
    constants = constants_of(A100, "tensor")
    tensor_s = 64 * 802_816 * 2 / (constants.memory_efficiency * A100.memory_bytes_per_s)
    norm, before = fused["layer1.1.bn3"], plain["layer1.1.bn3"]
    assert norm.forward_s == pytest.approx(before.forward_s + tensor_s)
    assert norm.backward_s == pytest.approx(before.backward_s + tensor_s)


def issued_s(layers: Sequence[LayerTime]) -> float:
    """Return the seconds of forward and backward, each kernel after its issue."""
    passes = [(each.forward_s, each.forward_issue) for each in layers]
    passes += [(each.backward_s, each.backward_issue) for each in reversed(layers)]
    return issue_times(passes).end_s(0.0, 0.0, math.fsum(seconds for seconds, _ in passes), 1.0)


def test_joined_operations_are_not_issued() -> None:
    """A host of 1 ms a kernel, which the GPU waits for."""
    each_s = 1e-3 / load_host("compiled").kernel_s
    plain, fused = (
        with_issue(
            estimate_layers(RESNET, A100, 1, "amp-fp16", layout="nhwc", library=each).layers,
            load_host("compiled"), "amp-fp16", each_s,
        )
        for each in ("cudnn", "cudnn-fused")
    )  # fmt: skip
    roles = fused_norms(RESNET.layers)
    assert issued_s(plain) - issued_s(fused) == pytest.approx(2 * roles.count("joined") * 1e-3, rel=0.01)
    joined = [each for each, role in zip(fused, roles, strict=True) if role == "joined"]
    assert {(each.forward_issue, each.backward_issue) for each in joined} == {(NOT_ISSUED, NOT_ISSUED)}


def test_a_transposed_norm_moves_five_feature_maps_twice_more_and_nothing_else_changes() -> None:
    last, turned = (
        estimate_layers(RESNET, V100, 64, "amp-fp16", layout="nhwc", library=library).layers
        for library in ("cudnn", "cudnn-turned")
    )
    constants = constants_of(V100, "tensor")
    as_first, as_last = (
        [sum(each) for each in of["batch-norm"]] for of in (constants.element_wise, constants.channels_last)
    )
    for before, after in zip(last, turned, strict=True):
        if before.layer.op != "batch-norm":
            assert after == before
            continue
        map_s = 64 * before.layer.input_elements * 2 / (constants.memory_efficiency * V100.memory_bytes_per_s)
        assert after.forward_s - before.forward_s == pytest.approx((2 * 2 + as_first[0] - as_last[0]) * map_s)
        assert after.backward_s - before.backward_s == pytest.approx((3 * 2 + as_first[1] - as_last[1]) * map_s)


def test_a_rate_of_other_kernels_scales_what_these_take() -> None:
    rate = {"samples_per_s": 900, "batch": 128, "source": "this test"}
    there, here = (
        built(ComputeSpec.model_validate({"layout": "nhwc", "library": library, "single_gpu": single}), "resnet50", 128)
        for library, single in (("cudnn", rate), ("cudnn-turned", {**rate, "software": "plain"}))
    )
    assert alone_s(there) == pytest.approx(128 / 900)
    ratio = total_s("resnet50", "a100-40gb", 128, "amp-fp16", "nhwc", "cudnn-turned") / total_s(
        "resnet50", "a100-40gb", 128, "amp-fp16", "nhwc"
    )
    assert here.forward_s + here.backward_s == pytest.approx(ratio * (there.forward_s + there.backward_s), rel=1e-3)
    assert any(f"with {load_software('plain').title}" in each for each in here.assumptions)


def test_a_published_rate_is_met_in_its_own_layout_and_others_are_as_much_slower_as_estimated() -> None:
    as_published, first, last = (built(ComputeSpec(layout=each)) for each in (None, "nchw", "nhwc"))
    assert as_published.compute_s == last.compute_s == pytest.approx(448 / 2075, rel=1e-3)
    assert as_published.layout == "nhwc"
    ratio = total_s("resnet50", "a100-40gb", 448, "amp-fp16") / total_s(
        "resnet50", "a100-40gb", 448, "amp-fp16", "nhwc"
    )
    assert first.forward_s + first.backward_s == pytest.approx(ratio * (last.forward_s + last.backward_s))


def test_a_chip_whose_kernels_turn_nothing_over_says_so() -> None:
    messages = built(ComputeSpec(layout="nhwc"), gpu="v100").assumptions
    assert any("as long with channels last as with channels first" in each for each in messages)
    assert not any("channels last" in each for each in built(ComputeSpec(layout="nhwc")).assumptions)


@pytest.mark.parametrize(
    ("model", "precision", "layout", "library", "message"),
    [
        ("resnet50", "fp32", "nhwc", "cudnn", "which fp32 does not use: image_layout: nhwc would change nothing"),
        ("bert-large", "amp-fp16", "nhwc", "cudnn", "bert-large has no convolution"),
        ("resnet50", "amp-fp16", "nhwc", "unrolled", "needs channels first; drop image_layout: nhwc"),
        ("resnet50", "amp-fp16", "nchw", "cudnn-fused", "only in 16 bits with channels last; write image_layout: nhwc"),
        ("resnet50", "tf32", "nhwc", "cudnn-fused", "only in 16 bits with channels last"),
        ("vgg16", "amp-fp16", "nhwc", "cudnn-fused", "vgg16 has no batch norm with a ReLU behind it"),
        (
            "resnet50",
            "amp-fp16",
            "nchw",
            "cudnn-turned",
            "only in 16 bits with channels last; write image_layout: nhwc",
        ),
        ("vgg16", "amp-fp16", "nhwc", "cudnn-turned", "vgg16 has no batch norm to transpose"),
    ],
)
def test_a_layout_that_changes_nothing_or_is_not_to_be_had_is_refused(
    model: str, precision: str, layout: str, library: str, message: str
) -> None:
    compute = ComputeSpec.model_validate({"layout": layout, "library": library})
    with pytest.raises(InputError, match=message):
        build_workload(load_model(model), A100, 8, precision, OptimizerSpec(), compute)
