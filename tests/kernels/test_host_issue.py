"""What a host issues for layers, compared with the operators counted in whole blocks and models."""

from __future__ import annotations

from collections import Counter

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.host_issue import _KINDS, _kind, _mode, host_of, with_issue
from clustersim.kernels.layer_times import Library
from clustersim.model import MODELS, LayerTime, load_model
from clustersim.model.layer import Layer
from clustersim.program.issue import NOT_ISSUED, PassIssue
from clustersim.software import Operators, load_host, operators_of
from clustersim.software.operators import operator_counts
from tests.software.test_operator_counts import TABLE

A100 = load_gpu("a100")
COMPILED, EAGER, MEGATRON = (load_host(name) for name in ("compiled", "pytorch-eager", "megatron"))
FUSED_GPT = "gpt-12x768x12-seq128-fused"


def estimated(model: str, precision: str, block: str = "", library: Library = "eager") -> list[LayerTime]:
    layers = estimate_layers(load_model(model), A100, 4, precision, library=library).layers
    return [each for each in layers if each.layer.name.startswith(block)]


def kernels(names: Counter[str], mode: str) -> tuple[int, int]:
    """Return how many operators with kernels these layers have forward and backward."""
    found = [(number, operators_of(name, mode)) for name, number in names.items()]
    return sum(n * forward.kernels for n, (forward, _) in found), sum(
        n * backward.kernels for n, (_, backward) in found
    )


NORMED = {"fully-connected.after-norm": 1, "fully-connected": -1}
SPLIT = {"split": 1}
MASKED = {"softmax.masked": 1, "softmax": -1}
"""PyTorch's explicit attention scales and masks in kernels of their own; here they are part of the softmax."""
IMAGES = {"add.images": 16, "add": -16, "pooling.global": 1, "pooling": -1}
FIRST = {"convolution.first": 1, "convolution": -1}
NO_LOSS = {"loss": -1}
THREE = {"fully-connected.after-norm": 3, "fully-connected": -1, "fork": 3}
"""Queries, keys and values of BERT are three layers that read what a norm wrote; here they are one.

Two forks, and a copy of the key's gradient, a kernel as well.
"""


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
@pytest.mark.parametrize(
    ("model", "block", "counted", "others"),
    [
        ("gpt2-small", "h.0.", "gpt2-block", [NORMED, NORMED, SPLIT, MASKED]),
        (FUSED_GPT, "h.0.", "gpt2-block.fused", [NORMED, NORMED, SPLIT]),
        ("bert-large", "layer.5.", "bert-block", [THREE, NORMED, MASKED]),
        ("vgg16", "", "vgg16", [NO_LOSS, FIRST]),
        ("alexnet", "", "alexnet", [NO_LOSS, FIRST]),
        (
            "resnet50", "", "resnet50",
            [NO_LOSS, IMAGES, {"convolution.first.no-bias": 1, "convolution.no-bias": -1}],
        ),
    ],
)  # fmt: skip
def test_layers_have_the_operators_of_the_block_that_was_counted(
    model: str, block: str, counted: str, others: list[dict[str, int]], precision: str
) -> None:
    """Whole blocks were counted apart from layers; `others` are layers that a block has instead of ours."""
    mode = _mode(EAGER, precision)
    names = Counter(_kind(each.layer) for each in estimated(model, precision, block))
    names.pop("nothing", None)
    for other in others:
        names.update(other)
    forward, backward = operators_of(counted, mode)
    assert kernels(names, mode) == (forward.kernels, backward.kernels)


def test_every_kind_was_counted_in_every_mode() -> None:
    for mode in ("fp32", "bf16", "autocast"):
        assert {(mode, kind) for kind in _KINDS.values()} <= operator_counts().keys()


def test_every_layer_of_the_catalogue_has_a_kind_but_those_that_were_not_counted() -> None:
    unknown = {layer.op for name in MODELS for layer in load_model(name).layers if not _kind(layer)}
    assert unknown <= {"experts", "router", "locally-connected", "transposed-locally-connected", "mask", "permute"}


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_a_fused_attention_is_issued_once(precision: str) -> None:
    layers = with_issue(estimated(FUSED_GPT, precision, "h.0.attention."), EAGER, precision)
    by_name = {each.layer.name.rsplit(".", 1)[1]: each for each in layers}
    scores, context = by_name["scores"], by_name["context"]
    assert scores.forward_s > 0  # the time of the kernel is shared by both
    assert scores.forward_issue == scores.backward_issue == NOT_ISSUED
    assert context.forward_issue.kernels == 1
    forward, backward = operators_of("attention.fused", _mode(EAGER, precision))
    host_s = forward.kernels * EAGER.kernel_s + forward.host_only * EAGER.view_s
    assert context.forward_issue.host_s == pytest.approx(host_s)
    assert context.backward_issue == PassIssue(backward.kernels * EAGER.backward_kernel_s, backward.launches)


def test_a_compiled_program_has_a_kernel_for_each_pass_that_takes_time() -> None:
    for each in with_issue(estimated("resnet50", "fp32", library="cudnn"), COMPILED, "fp32"):
        passes = [
            (each.forward_s, each.forward_issue),
            (each.backward_data_s, each.backward_data_issue),
            (each.backward_weights_s, each.backward_weights_issue),
        ]
        for seconds, issue in passes:
            assert issue == (PassIssue(COMPILED.kernel_s, 1) if seconds else NOT_ISSUED)


@pytest.mark.parametrize("software", [COMPILED, EAGER, MEGATRON], ids=lambda software: software.name)
def test_a_slower_host_takes_its_factor_longer_for_the_same_kernels(software) -> None:
    layers = estimated("gpt2-small", "amp-bf16", "h.0.")
    for one, other in zip(
        with_issue(layers, software, "amp-bf16"), with_issue(layers, software, "amp-bf16", 2.5), strict=True
    ):
        for name in ("forward_issue", "backward_data_issue", "backward_weights_issue"):
            assert getattr(other, name) == getattr(one, name).scaled(2.5)


def test_kernels_do_not_move_a_layers_own_times() -> None:
    layers = estimated("gpt2-small", "amp-bf16")
    issued = with_issue(layers, EAGER, "amp-bf16")
    names = ("layer", "forward_s", "backward_data_s", "backward_weights_s", "provenance")
    assert [[getattr(each, name) for name in names] for each in issued] == [
        [getattr(each, name) for name in names] for each in layers
    ]


def test_weights_of_32_bits_are_cast_in_kernels_of_their_own_under_autocast_alone() -> None:
    """Forward a cast of weights and one of biases; Megatron's weights have 16 bits already."""
    layers = [each for each in estimated("gpt2-small", "amp-bf16", "h.0.") if each.layer.op == "fully-connected"]
    eager, megatron = (with_issue(layers, software, "amp-bf16") for software in (EAGER, MEGATRON))
    for one, other in zip(eager, megatron, strict=True):
        assert one.forward_issue.kernels == other.forward_issue.kernels + 2
    in_fp32 = with_issue(layers, EAGER, "tf32")
    assert [each.forward_issue.kernels for each in in_fp32] == [each.forward_issue.kernels for each in megatron]


def test_backward_is_shared_by_its_passes_in_whole_kernels() -> None:
    for each in with_issue(estimated("vgg16", "fp32"), EAGER, "fp32"):
        _, backward = operators_of(kind, "fp32") if (kind := _kind(each.layer)) else (None, Operators(2, 2, 4))
        assert each.backward_issue.kernels == max(1, backward.launches)
        assert each.backward_issue.host_s == pytest.approx(backward.kernels * EAGER.backward_kernel_s)


def test_a_convolutions_bias_is_a_kernel_more_and_a_tensor_more() -> None:
    """VGG's convolutions have biases, ResNet's have none."""
    with_bias, without = (
        next(each for each in estimated(model, "fp32") if each.layer.op == "convolution")
        for model in ("vgg16", "resnet50")
    )
    assert (_kind(with_bias.layer), _kind(without.layer)) == ("convolution", "convolution.no-bias")
    both = [with_issue([each], EAGER, "fp32")[0].forward_issue for each in (with_bias, without)]
    assert [each.kernels for each in both] == [2, 1]
    assert both[0].host_s == both[1].host_s == pytest.approx(EAGER.kernel_s + EAGER.convolution_s)
    updates = [host_of([each], COMPILED).update for each in (with_bias, without)]
    assert updates == [PassIssue(2 * COMPILED.update_tensor_s, 2), PassIssue(COMPILED.update_tensor_s, 1)]


@pytest.mark.parametrize(("model", "counted"), [("resnet50", "resnet50"), ("vgg16", "vgg16"), ("alexnet", "alexnet")])
def test_an_update_has_the_tensors_of_the_model_that_was_counted(model: str, counted: str) -> None:
    tensors = TABLE["fp32"]["models"][counted]["parameters"]
    host = host_of(estimated(model, "fp32"), EAGER, factor=2.0)
    assert host.update.host_s == pytest.approx(2 * (EAGER.update_s + tensors * EAGER.update_tensor_s))
    assert host.update.kernels == EAGER.update_kernels
    assert (host.exchange_s, host.message_s) == (2 * EAGER.exchange_s, 2 * EAGER.message_s)
    assert host_of(estimated(model, "fp32"), COMPILED).update.kernels == tensors


def test_a_layer_that_was_not_counted_has_a_product_and_its_two_gradients() -> None:
    layer = Layer("e", "experts", 1e6, 1e6, 1e6, 100, 1.0, 1.0)
    (time,) = with_issue([LayerTime(layer, 1e-3, 1e-3, 1e-3, "estimated")], EAGER, "fp32")
    assert time.forward_issue == PassIssue(EAGER.kernel_s + 2 * EAGER.view_s, 1)
    assert time.backward_data_issue == time.backward_weights_issue == PassIssue(EAGER.backward_kernel_s, 1)
