"""What products keep in training on Ampere and Hopper: fitted to published steps, of which each part is forecast."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.hardware import GPUS, load_gpu
from clustersim.workload import OptimizerSpec, encoder_kernels, training_share
from clustersim.workload.catalogue import load_model
from clustersim.workload.fused_attention import FIRST_UTILISATION, UTILISATION, is_fused
from clustersim.workload.kernel_constants import constants_of, fit_document
from clustersim.workload.layer import Model
from clustersim.workload.layer_times import Library, estimate_layers
from clustersim.workload.training_share import TRAINING_SHARE

GPT2_XL = "gpt-48x1600x25-seq1024-vocab50304-fused"
NANOCHAT = "gpt-20x1280x10-seq2048-vocab65536-fused"
CHIP = {"ampere": "ga100-tensor", "hopper": "gh100-tensor"}
FIRST_FLASH = UTILISATION[CHIP["ampere"]].forward / FIRST_UTILISATION[CHIP["ampere"]].forward


class Step(NamedTuple):
    """A published step of `batch` sequences on one GPU, which updates its weights in `updates` of a step.

    `measured_s` may follow from a model's parameters; `attention` is by how much its kernel is slower than the second
    FlashAttention's; `weight` is a source's over its steps.
    """

    model: str
    gpu: str
    batch: int
    precision: str
    library: Library
    updates: float
    measured_s: float | Callable[[Model], float]
    attention: float = 1.0
    weight: float = 1.0

    def seconds(self) -> tuple[float, float]:
        """Return the forecast and what was measured."""
        model, gpu = load_model(self.model), load_gpu(self.gpu)
        layers = estimate_layers(model, gpu, self.batch, self.precision, library=self.library, operator_s=0.0).layers
        slower = (self.attention if is_fused(each.layer) else 1.0 for each in layers)
        passes_s = sum(by * (each.forward_s + each.backward_s) for by, each in zip(slower, layers, strict=True))
        update_s = OptimizerSpec(kind="adam").update_s(model.num_parameters, gpu)
        measured_s = self.measured_s(model) if callable(self.measured_s) else self.measured_s
        return passes_s + self.updates * update_s, measured_s


def at_rate(batch: int, flop_per_s: float) -> Callable[[Model], float]:
    """Return the seconds of GPT-2 XL's sequences at a rate that counts 6 N + 12 L d T FLOP a token."""
    return lambda model: batch * 1024 * (6 * model.num_parameters + 12 * 48 * 1600 * 1024) / flop_per_s


def flash(sizes: str, tokens_per_s: float, updates: float) -> Step:
    """Return a step of 16,384 tokens on one of eight A100 with the first FlashAttention and fused layers."""
    model = f"gpt-{sizes}-seq2048-vocab50257-fused"
    return Step(model, "a100", 8, "amp-bf16", "cudnn", updates, 16_384 / (tokens_per_s / 8), FIRST_FLASH, 0.25)


STEPS = {
    "hopper": [  # ROCm/TransformerEngine, issue 72 (2024), of one H100 and one H200; karpathy/nanochat, discussion 1
        Step(GPT2_XL, "h100", 14, "amp-bf16", "cudnn", 1 / 8, at_rate(14, 478.73e12)),
        Step(GPT2_XL, "h200", 38, "amp-fp8", "megatron", 1 / 8, at_rate(38, 630.1e12)),
        Step(NANOCHAT, "h100", 32, "amp-bf16", "cudnn", 1, 0.487),
    ],
    "ampere": [  # Dao-AILab/flash-attention, training/README.md (0b037c2d); karpathy/nanochat, pull request 147 (2025)
        flash("24x1024x16", 503e3, 1 / 4),
        flash("24x1536x16", 245e3, 1 / 4),
        flash("24x2048x16", 169e3, 1 / 8),
        flash("32x2560x20", 85e3, 1 / 8),
        Step(NANOCHAT, "a100", 32, "amp-bf16", "cudnn", 1, 0.989),
    ],
}
LAYER_FLOP = 24 * 128 * 128 * 1024**2 + 4 * 128 * 128**2 * 1024
BERT_LAYER = ((1, 110e12), (3, 136e12))
"""Forward alone, and both: mli/transformers-benchmarks, README.md (04df81d0), 128 x 128 tokens of BERT-large in PyTorch
1.13, whose element-wise kernels read more than one number at a time by then."""


def bert_layer_s(passes: int, patch: pytest.MonkeyPatch) -> float:
    patch.setattr(encoder_kernels, "ONE_AT_A_TIME", 2.0)
    layers = estimate_layers(load_model("bert-large"), load_gpu("a100"), 128, "amp-fp16", library="eager-2020").layers
    own = [each for each in layers if each.layer.name.startswith("layer.5.")]
    return sum(each.forward_s + (each.backward_s if passes == 3 else 0.0) for each in own)


def errors(architecture: str, share: float, patch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Return log(forecast / measured) of each step, and the weights: of sources alike on Ampere, of steps on Hopper."""
    patch.setattr(training_share, "TRAINING_SHARE", {CHIP[architecture]: share})
    rows = [(np.log(np.divide(*step.seconds())), step.weight) for step in STEPS[architecture]]
    if architecture == "ampere":
        rows += [(np.log(bert_layer_s(num, patch) * rate / (num * LAYER_FLOP)), 0.5) for num, rate in BERT_LAYER]
    return np.array([error for error, _ in rows]), np.array([weight for _, weight in rows])


@pytest.mark.parametrize(("architecture", "bound"), [("ampere", 0.11), ("hopper", 0.06)])
def test_the_share_is_the_best_for_published_steps(
    architecture: str, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By least squares, to a hundredth; without it steps are forecast up to 22 % too quick, and none slow."""
    stored = TRAINING_SHARE[CHIP[architecture]]

    def squares(share: float) -> float:
        error, weight = errors(architecture, share, monkeypatch)
        return float(np.sum(weight * error**2))

    assert squares(stored) < min(squares(stored - 0.01), squares(stored + 0.01))
    assert np.max(np.abs(np.expm1(errors(architecture, stored, monkeypatch)[0]))) < bound
    alone = np.expm1(errors(architecture, 1.0, monkeypatch)[0])
    assert -0.23 < alone.min() < -0.15
    assert alone.max() < 0


def test_fused_attention_and_casts_keep_their_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attention's kernel was timed as such, and so were casts to 8 bits: only products of matrices are slower."""
    model, gpu = load_model("gpt-2x1024x8-seq512-vocab1024-fused"), load_gpu("h100")
    found = {}
    for share in (1.0, 0.5):
        monkeypatch.setattr(training_share, "TRAINING_SHARE", {CHIP["hopper"]: share})
        found[share] = estimate_layers(model, gpu, 8, "amp-bf16", operator_s=0.0).layers
    for whole, half in zip(found[1.0], found[0.5], strict=True):
        is_slower = whole.layer.op == "fully-connected"
        assert (half.forward_s > 1.5 * whole.forward_s) == is_slower
        if not is_slower:
            assert half == whole


def on_tensor_cores() -> dict[str, str]:
    """Return the chip of every sheet that has tensor cores, whose constants it takes for them."""
    found = {}
    for name in GPUS:
        try:
            found[name] = constants_of(load_gpu(name), "tensor").chip
        except InputError:
            continue
    return found


@pytest.mark.parametrize(("name", "chip"), on_tensor_cores().items())
def test_who_borrows_a_chips_constants_borrows_its_share(name: str, chip: str) -> None:
    """Large products reach in training the same share of the peak on every GPU that has the constants of one chip."""
    constants, layer = constants_of(load_gpu(name), "tensor"), load_model(NANOCHAT).layers
    share = TRAINING_SHARE.get(chip, 1.0)
    large = fit_document()["chips"][chip]["efficiency"]["matmul_forward"]
    product = next(each for each in layer if each.op == "fully-connected")
    assert training_share.training_share(product, constants) == share
    assert training_share.in_training(constants).efficiency["matmul_forward"] == pytest.approx(large * share)


def test_blackwell_has_hoppers_share() -> None:
    assert on_tensor_cores()["b200"] == CHIP["hopper"]
    assert set(CHIP.values()) == set(TRAINING_SHARE)


def test_ordinary_units_have_none() -> None:
    model = load_model(NANOCHAT)
    products = [each for each in model.layers if each.op == "fully-connected"]
    ordinary = constants_of(load_gpu("b200"), "ordinary")
    assert {training_share.training_share(each, ordinary) for each in products} == {1.0}
