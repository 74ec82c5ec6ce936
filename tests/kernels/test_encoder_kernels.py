"""Memory traffic of frameworks of 2018 to 2021 around the GEMMs of an encoder, and the rates of a V100."""

import math

import numpy as np
import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, build_workload, estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of
from clustersim.kernels.layer_times import Library
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.programs.encoder_kernels import (
    ExtraBytes,
    casts_gradients,
    encoder_extra_bytes,
    encoder_traffic,
)
from clustersim.model import PRECISIONS, Workload, load_model
from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Layer, LayerTime
from clustersim.parallelism.piece_times import piece_times
from clustersim.parallelism.split import split_model

TOKENS, FEATURES, HEADS = 128, 1024, 16
X = Tensor(FEATURES, TOKENS)


def one_layer(op: str) -> Layer:
    net = Builder("one", "one")
    if op == "add":
        net.add("it", X, X)
    else:
        {"layer-norm": net.layer_norm, "softmax": net.softmax, "gelu": net.gelu}[op]("it", X)
    return net.model().layers[0]


@pytest.mark.parametrize(
    ("op", "library", "forward", "backward"),
    [
        ("layer-norm", "eager-2020", 3, 7),
        ("layer-norm", "xla", 4, 7),
        ("softmax", "eager-2020", 6, 5),
        ("softmax", "xla", 4, 5),
        ("add", "eager-2020", 3, 3),
        ("add", "xla", 3, 3),
    ],
)
def test_an_operation_moves_what_its_kernels_read_and_write(op, library, forward, backward):
    """In tensors as large as what it writes."""
    one = one_layer(op)
    moved = encoder_traffic(one, library)
    assert moved is not None
    found = [each.elements(one.input_elements, one.output_elements) / one.output_elements for each in moved]
    assert found == [forward, backward]


def test_a_gelu_is_one_kernel():
    assert encoder_traffic(one_layer("gelu"), "eager-2020") is None


@pytest.mark.parametrize("tokens", [32, 64, 512])
def test_heads_are_copied_two_tensors_before_or_after_each_product_of_an_attention(tokens):
    """Both ways, read and written, however long the sequence is: 4 tensors of tokens x features, and never scores."""
    net, x = Builder("one", "one"), Tensor(FEATURES, tokens)
    scores = net.attention_matmul("scores", x, x, HEADS, outputs=tokens)
    net.attention_matmul("context", scores, x, HEADS, outputs=FEATURES // HEADS)
    for layer in net.model().layers:
        moved = encoder_extra_bytes(layer, PRECISIONS["fp32"], "xla")
        assert moved == ExtraBytes(forward=16.0 * tokens * FEATURES, backward_data=16.0 * tokens * FEATURES)


def test_around_a_matrix_go_its_bias_the_sums_of_gradients_and_casts_of_weights():
    """Query, key and value, in 16 bits of fp32 weights: 3 outputs, 3 gradients of one input."""
    net = Builder("one", "one")
    net.linear("qkv", X, FEATURES, count=3)
    (qkv,), number = net.model().layers, PRECISIONS["amp-fp16"]
    tensor, cast = 4.0 * TOKENS * FEATURES, 6.0 * 3 * (FEATURES + 1) * FEATURES
    assert encoder_extra_bytes(qkv, number, "eager-2020") == ExtraBytes(
        2 * 3 * tensor, 6 * tensor, 3 * tensor, cast, cast
    )
    assert encoder_extra_bytes(qkv, number, "xla") == ExtraBytes(0.0, 4 * tensor, 3 * tensor, cast, cast)
    assert encoder_extra_bytes(qkv, PRECISIONS["fp32"], "xla") == ExtraBytes(0.0, 4 * tensor, 3 * tensor)


def vit(library: Library, gradient_bytes: float, num_passes: int) -> Workload:
    """Return 64 images of a Vision Transformer on an A100."""
    given = load_model("vit-b-16"), load_gpu("a100"), 64, "amp-bf16", OptimizerSpec(kind="adam")
    return build_workload(*given, ComputeSpec(library=library), gradient_bytes=gradient_bytes, num_passes=num_passes)


@pytest.mark.parametrize(
    ("library", "gradient_bytes", "num_passes", "is_cast"),
    [("xla", 2.0, 1, False), ("xla", 4.0, 1, True), ("xla", 2.0, 8, True), ("eager-2020", 2.0, 1, True)],
)
def test_xla_casts_what_an_exchange_in_16_bits_gives_back_in_the_update(library, gradient_bytes, num_passes, is_cast):
    """An exchange in fp32, and sums of micro-batches, want gradients written in fp32 before."""
    assert casts_gradients(library, PRECISIONS["amp-bf16"], gradient_bytes, num_passes) == is_cast
    model, gpu = load_model("vit-b-16"), load_gpu("a100")
    found = vit(library, gradient_bytes, num_passes)
    plain = estimate_layers(model, gpu, 64, "amp-bf16", library=library).layers
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    numbers = sum(each.num_parameters for each in model.layers if each.op == "fully-connected")
    less_s = sum(each.backward_s for each in plain) - sum(each.backward_s for each in found.layers)
    assert less_s == pytest.approx(0.0 if is_cast else 6.0 * numbers / rate, rel=1e-6, abs=1e-12)
    assert found.casts_back == is_cast


def test_a_gpus_piece_of_a_layer_casts_as_the_whole_layer_does():
    joined, apart = vit("xla", 2.0, 1), vit("xla", 4.0, 1)
    pieces = split_model(joined.model, 2, 2.0)
    rate = constants_of(joined.gpu, "tensor").memory_efficiency * joined.gpu.memory_bytes_per_s
    cast_s = [6.0 * piece.layer.num_parameters / rate for piece in pieces if piece.layer.op == "fully-connected"]
    found, anew = (
        [time.backward_weights_s for time in piece_times(each, pieces, "xla") if time.layer.op == "fully-connected"]
        for each in (joined, apart)
    )
    assert np.array(anew) - np.array(found) == pytest.approx(np.array(cast_s), rel=1e-6)


def test_a_matrix_without_biases_moves_none():
    net = Builder("one", "one")
    net.linear("it", X, FEATURES, bias=False)
    assert encoder_extra_bytes(net.model().layers[0], PRECISIONS["fp32"], "eager-2020") == ExtraBytes()


@pytest.mark.parametrize("library", ["eager-2020", "xla"])
def test_networks_of_convolutions_take_as_long_but_for_sums_and_the_last_product(library):
    model, gpu = load_model("resnet50"), load_gpu("v100")
    before, after = (estimate_layers(model, gpu, 64, "fp32", library=each).layers for each in ("cudnn", library))
    slower = {
        new.layer.op
        for old, new in zip(before, after, strict=True)
        if new.forward_s + new.backward_s > old.forward_s + old.backward_s
    }
    assert slower == {"add", "fully-connected"}


def block_layers(batch: int, tokens: int, library: Library, precision: str = "amp-fp16") -> list[LayerTime]:
    """Return what one layer of BERT-large takes on a V100."""
    model = load_model("bert-large" if tokens == 128 else f"bert-large-seq{tokens}")
    layers = estimate_layers(model, load_gpu("v100"), batch, precision, library=library).layers
    return [each for each in layers if each.layer.name.startswith("layer.5.")]


@pytest.mark.parametrize("library", ["eager-2020", "xla"])
def test_kernels_that_read_one_number_at_a_time_take_as_long_in_16_bits_as_in_32(library):
    """Those of layers without products; cuDNN's batch norms halve."""
    halves, floats = (block_layers(96, 128, library, precision) for precision in ("amp-fp16", "fp32"))
    ops = [(half.layer.op, half.forward_s, whole.forward_s) for half, whole in zip(halves, floats, strict=True)]
    alike = {op: half_s / whole_s for op, half_s, whole_s in ops if op not in ("fully-connected", "matmul")}
    assert alike == dict.fromkeys(("softmax", "dropout", "add", "layer-norm", "gelu"), pytest.approx(1.0))
    norm_s = {
        precision: next(
            each.forward_s
            for each in estimate_layers(load_model("resnet50"), load_gpu("v100"), 64, precision, library=library).layers
            if each.layer.op == "batch-norm"
        )
        for precision in ("amp-fp16", "fp32")
    }
    assert norm_s["amp-fp16"] < 0.52 * norm_s["fp32"]


SQUARES = [(1024, 57.30), (2048, 78.23), (4096, 95.73), (8192, 97.36), (10240, 89.37), (8192, 96.0)]
"""TFLOP/s of PyTorch's products of random numbers in 16 bits on a V100 SXM2: zzc0721/torch-performance-test-data, issue
140, and mli/transformers-benchmarks, matmul.ipynb, 19fe7896."""


def test_products_on_a_v100_reach_what_random_numbers_do_and_not_what_deepbenchs_zeros_do():
    gpu = load_gpu("v100")
    known = constants_of(gpu, "tensor")
    products = [plain_gemm(size, size, size, 1, "backward_data", known, 2.0) for size, _ in SQUARES]
    seconds = gemm_seconds(products, rates_of(gpu, "amp-fp16"), known)
    errors = [
        math.log(forecast_s * rate * 1e12 / (2.0 * size**3))
        for forecast_s, (size, rate) in zip(seconds, SQUARES, strict=True)
    ]
    assert math.fsum(errors) / len(errors) == pytest.approx(0.0, abs=1e-3)
    assert max(abs(error) for error in errors) < 0.11


BY_FRAMEWORKS = [(8, 512, "eager-2020", 9.14e-3), (8, 512, "xla", 8.4e-3), (96, 128, "eager-2020", 18.43e-3)]
"""Seconds of a layer of BERT-large in PyTorch and in TensorFlow with XLA: spcl/substation, README.md, 2d93ff08."""
BY_HAND = [(8, 512, 7.60e-3), (8, 512, 6.87e-3), (96, 128, 16.19e-3), (96, 128, 15.42e-3)]
"""The same fused by hand, by DeepSpeed and by its authors."""


def one_block_s(batch: int, tokens: int, library: Library) -> float:
    return sum(each.forward_s + each.backward_s for each in block_layers(batch, tokens, library))


@pytest.mark.parametrize(("batch", "tokens", "library", "measured_s"), BY_FRAMEWORKS)
def test_a_layer_takes_what_frameworks_took_on_a_v100(batch, tokens, library, measured_s):
    """Nothing was fitted to these: 2 %, 3 % and 8 % slow."""
    assert one_block_s(batch, tokens, library) == pytest.approx(measured_s, rel=0.09)


@pytest.mark.parametrize(("batch", "tokens", "measured_s"), BY_HAND)
def test_a_layer_of_one_pass_each_is_quicker_than_one_fused_by_hand(batch, tokens, measured_s):
    """One pass of each layer is what a compiler could do at best: 16 to 27 % quick."""
    assert 0.72 < one_block_s(batch, tokens, "cudnn") / measured_s < 0.85


def test_megatrons_gpt_takes_from_sheets_what_one_v100_took():
    """1.121 s at 8 sequences, each layer passed forward twice (NVIDIA/Megatron-LM, images/scaling-mp.png, 52819194)."""
    model, gpu = load_model("megatron-1b"), load_gpu("v100-32gb")
    layers = estimate_layers(model, gpu, 8, "amp-fp16").layers
    again_s = sum(each.forward_s for each in layers if each.layer.name.startswith("h."))
    update_s = OptimizerSpec(kind="adam").update_s(model.num_parameters, gpu, launches=len(layers))
    whole_s = sum(each.forward_s + each.backward_s for each in layers) + again_s + update_s
    assert whole_s == pytest.approx(1.121, rel=0.03)


RATES = [  # NVIDIA, DeepLearningExamples (729963dd and, of a DGX-2, 23a6382c and d666f145): sequences/s of one GPU
    ("bert-large", "v100-32gb", "fp32", 32, 2048, "xla", 46.78, 0.08),
    ("bert-large", "v100-32gb", "amp-fp16", 64, 1024, "xla", 168.63, 0.26),
    ("bert-large-seq512", "v100", "fp32", 2, 16384, "xla", 9.8, 0.08),
    ("bert-large-seq512", "v100-32gb", "fp32", 8, 4096, "xla", 10.67, 0.05),
    ("bert-large-seq512", "v100-32gb", "amp-fp16", 8, 4096, "xla", 31.23, 0.24),
    ("bert-large-seq384", "v100-32gb", "amp-fp16", 24, 1, "xla", 51.02, 0.10),
    ("bert-large-seq384", "v100-32gb", "amp-fp16", 4, 1, "eager-2020", 38.16, 0.08),
    ("bert-large-seq384", "v100-32gb", "amp-fp16", 10, 1, "eager-2020", 47.4, 0.04),
    ("bert-large-seq384", "v100-32gb", "amp-fp16", 16, 1, "eager-2020", 52.0, 0.04),
    ("transformer-big", "v100", "fp32", 80, 1, "eager-2020", 273.19, 0.06),
    ("transformer-big", "v100", "amp-fp16", 160, 1, "eager-2020", 1029.44, 0.15),
    ("transformer-big", "v100-32gb", "fp32", 160, 1, "eager-2020", 307.09, 0.05),
    ("transformer-big", "v100-32gb", "amp-fp16", 320, 1, "eager-2020", 1247.22, 0.02),
]


@pytest.mark.parametrize(("model", "gpu", "precision", "batch", "batches", "library", "rate", "bound"), RATES)
def test_rates_of_encoders_on_one_gpu_from_sheets_alone(model, gpu, precision, batch, batches, library, rate, bound):
    """Nothing was fitted to these either: what each may be off is the error that the documentation lists."""
    known, device = load_model(model), load_gpu(gpu)
    layers = estimate_layers(known, device, batch, precision, library=library).layers
    update_s = OptimizerSpec(kind="adam").update_s(known.num_parameters, device, launches=len(known.layers))
    seconds = sum(each.forward_s + each.backward_s for each in layers) + update_s / batches
    assert batch / seconds == pytest.approx(rate, rel=bound)
