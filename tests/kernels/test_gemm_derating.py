"""Derating of GEMMs in training on Ampere and Hopper: fitted to published steps, each forecast in all its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch as patched

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.hardware import GPUS, load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.kernels import OptimizerSpec, gemm_derating
from clustersim.kernels.fused_attention import AttentionKernel, with_kernel
from clustersim.kernels.gemm_derating import TRAINING_DERATING
from clustersim.kernels.kernel_constants import constants_of, fit_document
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.kernels.programs import encoder_kernels
from clustersim.model.casts import Casts, CastsKind
from clustersim.model.catalogue import load_model
from clustersim.model.catalogue.llama import LLAMA_SIZES, llama
from clustersim.model.layer import LayerTime, Model
from clustersim.parallelism.gradient_kernels import moved_seconds
from clustersim.stragglers import Awaited, slowest

GPT2_XL = "gpt-48x1600x25-seq1024-vocab50304-fused"
NANOCHAT = "gpt-20x1280x10-seq2048-vocab65536-fused-no-dropout"
PHI_3 = "llama-phi-3-mini"
CHIP = {"ampere": "ga100-tensor", "hopper": "gh100-tensor"}

AUTOCAST_BYTES = 12.0
"""Of a parameter in fp32, in each pass under autocast: cast to bf16, 6, and its gradient cast back, 6."""

TE_BYTES = 8.0
"""The same of TransformerEngine's layers: casts to 8 bits read 4 bytes where they are counted with 2, and gradients,
written in bf16, are cast, 6."""

RESIDUAL_BYTES = 16.0
"""Of a number of the residual stream at each norm, where it stays in fp32 as embeddings leave it under autocast.

Forward the sum reads and writes it, 4 more, and the norm reads it, 2; backward the norm reads it twice, 4, and reads
and writes its gradient, 6.
"""


class Step(NamedTuple):
    """A published step of `batch` sequences on one GPU, which updates its weights in `updates` of a step.

    `measured_s` may follow from a model's parameters; `weight` is a source's over its steps; `casts` are those to 8
    bits; gradients of `micro_batches` are added up by autograd. `weight_bytes` of a parameter and `residual_bytes` of a
    number at each norm are moved beside. `kernel` is attention's, where it is not the model's or the library's. Of
    several GPUs the slowest is awaited, as `docs/physics/stragglers.md`, *Unequal GPUs*, has it.
    """

    model: str
    gpu: str
    batch: int
    precision: str
    library: Library
    updates: float
    measured_s: float | Callable[[Model], float]
    weight: float = 1.0
    casts: CastsKind = "torchao"
    micro_batches: int = 1
    num_gpus: int = 1
    kernel: AttentionKernel | None = None
    weight_bytes: float = 0.0
    residual_bytes: float = 0.0

    def layers(self, model: Model, gpu: Gpu) -> list[LayerTime]:
        """Return layer times, with PyTorch's loss where TransformerEngine's layers are without Megatron-LM."""
        casts, is_te = Casts(self.casts), self.library == "megatron"
        given = (model, gpu, self.batch, self.precision)
        found = estimate_layers(*given, library=self.library, casts=casts).layers
        plain = estimate_layers(*given, library="eager", casts=casts).layers if is_te else found
        return [b if a.layer.op == "loss" else a for a, b in zip(found, plain, strict=True)]

    def seconds(self) -> tuple[float, float]:
        """Return the forecast and what was measured."""
        model, gpu = replace(loaded(self.model)), load_gpu(self.gpu)  # another one, whose times are not known yet
        if self.kernel:
            model = with_kernel(model, self.kernel)
        layers = self.layers(model, gpu)
        passes_s = sum(each.forward_s + each.backward_s for each in layers)
        update_s = OptimizerSpec(kind="adam").update_s(model.num_parameters, gpu)
        added = moved_seconds("autograd", gpu, "tensor", 4, 4, 1).of_micro_batch(self.micro_batches)
        normed = sum(each.output_elements for each in model.layers if each.op == "layer-norm")
        moved = self.weight_bytes * model.num_parameters + self.residual_bytes * self.batch * normed
        rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
        passes_s += moved / rate
        measured_s = self.measured_s(model) if callable(self.measured_s) else self.measured_s
        last = slowest(gpu.variability or 0.0, Awaited(self.num_gpus, self.num_gpus))
        return last * (passes_s + self.updates * update_s + added * model.num_parameters), measured_s


def loaded(name: str) -> Model:
    """Return a model of the catalogue, or Phi-3 mini, which is a Llama that the catalogue does not have.

    Sizes: Lightning-AI/litgpt, litgpt/config.py, commit 0006c973.
    """
    size = LLAMA_SIZES["llama-2-7b"]._replace(features=3072, between=8192, words=32_064)
    with patched.dict(LLAMA_SIZES, {PHI_3: size}):
        return llama(PHI_3)() if name == PHI_3 else load_model(name)


def at_rate(batch: int, flop_per_s: float) -> Callable[[Model], float]:
    """Return the seconds of GPT-2 XL's sequences at a rate that counts 6 N + 12 L d T FLOP a token."""
    return lambda model: batch * 1024 * (6 * model.num_parameters + 12 * 48 * 1600 * 1024) / flop_per_s


def flash(sizes: str, tokens_per_s: float, updates: float) -> Step:
    """Return a step of 16,384 tokens on one of eight A100 with the first FlashAttention and fused layers."""
    model = f"gpt-{sizes}-seq2048-vocab50257-fused"
    return Step(
        model, "a100", 8, "amp-bf16", "cudnn", updates, 16_384 / (tokens_per_s / 8), 0.25, num_gpus=8,
        kernel="flash-attention",
    )  # fmt: skip


def flash_2(sizes: str, tokens: int, kernel: AttentionKernel, tflop_per_s: float) -> Step:
    """Return a step of 16,384 tokens on one of eight A100 that Dao has (arXiv:2307.08691, table 1), of the same code.

    He counts 6 N + 12 L d T FLOP a token, with every pair of tokens.
    """
    blocks, features, _ = map(int, sizes.split("x"))

    def seconds(model: Model) -> float:
        flop = 6 * model.num_parameters + 12 * blocks * features * tokens
        return 16_384 * flop / (tflop_per_s * 1e12)

    model = f"gpt-{sizes}-seq{tokens}-vocab50257-fused"
    return Step(model, "a100", 16_384 // tokens, "amp-bf16", "cudnn", 1 / 8, seconds, 1 / 8, num_gpus=8, kernel=kernel)


def gpt2_xl(
    bits: str, gpu: str, batch: int, tflop_per_s: float, weight: float, kernel: AttentionKernel | None = None
) -> Step:
    """Return a step of GPT-2 XL: compiled in bfloat16, or of TransformerEngine's layers in 8 bits.

    ROCm/TransformerEngine, issue 72 (2024), whose batch in bfloat16 is assumed. An update is of 8 micro-batches. The
    code (OrenLeung/nanoGPT-amd, gpt.py, commit f961cec6) has no dropout, and embeddings in fp32 under autocast; that of
    issue 72 in 8 bits (reprod_gpt.py, commit 1ea39737) has the dropouts that TransformerLayer has by default.
    """
    rate = at_rate(batch, tflop_per_s * 1e12)
    if bits == "bf16":
        return Step(
            f"{GPT2_XL}-no-dropout", gpu, batch, "amp-bf16", "cudnn", 1 / 8, rate, weight=weight, micro_batches=8,
            kernel=kernel, weight_bytes=AUTOCAST_BYTES, residual_bytes=RESIDUAL_BYTES,
        )  # fmt: skip
    name = GPT2_XL if weight == 1 / 4 else f"{GPT2_XL}-no-dropout"
    return Step(
        name, gpu, batch, "amp-fp8", "megatron", 1 / 8, rate, weight, "te", 8, weight_bytes=TE_BYTES
    )  # fmt: skip


STEPS = {
    "hopper": [
        # PyTorch preferred cuDNN until 22 October 2024 (pull request 138522)
        gpt2_xl("bf16", "h100", 14, 478.73, 1 / 4, "cudnn"),
        gpt2_xl("fp8", "h100", 14, 490.0, 1 / 4),
        gpt2_xl("fp8", "h200", 14, 532.68, 1 / 4),
        gpt2_xl("fp8", "h200", 38, 630.1, 1 / 4),
        # Lightning-AI/lightning-thunder, issue 1364 (2024): TransformerEngine's products, compiled; weights in 16 bits
        Step(PHI_3, "h100", 1, "amp-fp8", "cudnn", 1 / 2, 0.18233, casts="te", kernel="cudnn"),
        Step(NANOCHAT, "h100", 32, "amp-bf16", "cudnn", 1, 0.487, num_gpus=8),  # karpathy/nanochat, discussion 1 (2025)
    ],
    "ampere": [  # Dao-AILab/flash-attention, training/README.md (0b037c2d); karpathy/nanochat, pull request 147 (2025)
        flash("24x1024x16", 503e3, 1 / 4),
        flash("24x1536x16", 245e3, 1 / 4),
        flash("24x2048x16", 169e3, 1 / 8),
        flash("32x2560x20", 85e3, 1 / 8),
        flash_2("24x2048x16", 2048, "flash-attention", 189),
        flash_2("24x2048x16", 2048, "flash-attention-2", 196),
        flash_2("24x2048x16", 8192, "flash-attention", 170),
        flash_2("24x2048x16", 8192, "flash-attention-2", 220),
        flash_2("32x2560x20", 2048, "flash-attention", 189),
        flash_2("32x2560x20", 2048, "flash-attention-2", 205),
        flash_2("32x2560x20", 8192, "flash-attention", 175),
        flash_2("32x2560x20", 8192, "flash-attention-2", 225),
        Step(NANOCHAT, "a100", 32, "amp-bf16", "cudnn", 1, 0.989, num_gpus=8),
    ],
}
LAYER_FLOP = 24 * 128 * 128 * 1024**2 + 4 * 128 * 128**2 * 1024
BERT_LAYER = ((1, 110e12), (3, 136e12))
"""Forward alone, and both: mli/transformers-benchmarks, README.md (04df81d0), 128 x 128 tokens of BERT-large in PyTorch
1.13, whose element-wise kernels read more than one number at a time by then."""


def bert_layer_s(passes: int, patch: pytest.MonkeyPatch) -> float:
    patch.setattr(encoder_kernels, "SCALAR_ACCESS_BYTES", 2.0)
    layers = estimate_layers(
        replace(load_model("bert-large")), load_gpu("a100"), 128, "amp-fp16", library="eager-2020"
    ).layers
    own = [each for each in layers if each.layer.name.startswith("layer.5.")]
    return sum(each.forward_s + (each.backward_s if passes == 3 else 0.0) for each in own)


def errors(architecture: str, share: float, patch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Return log(forecast / measured) of each step, and the weights, those of every source summing to 1."""
    patch.setattr(gemm_derating, "TRAINING_DERATING", {CHIP[architecture]: share})
    rows = [(np.log(np.divide(*step.seconds())), step.weight) for step in STEPS[architecture]]
    if architecture == "ampere":
        rows += [(np.log(bert_layer_s(num, patch) * rate / (num * LAYER_FLOP)), 0.5) for num, rate in BERT_LAYER]
    return np.array([error for error, _ in rows]), np.array([weight for _, weight in rows])


@pytest.mark.parametrize(("architecture", "bound", "alone"), [("ampere", 0.12, -0.17), ("hopper", 0.16, -0.33)])
def test_the_share_is_the_best_for_published_steps(
    architecture: str, bound: float, alone: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By least squares, to a hundredth; without it all steps but one are forecast too quick, and that is right."""
    stored = TRAINING_DERATING[CHIP[architecture]]

    def squares(share: float) -> float:
        error, weight = errors(architecture, share, monkeypatch)
        return float(np.sum(weight * error**2))

    assert squares(stored) < min(squares(stored - 0.01), squares(stored + 0.01))
    assert np.max(np.abs(np.expm1(errors(architecture, stored, monkeypatch)[0]))) < bound
    without = np.expm1(errors(architecture, 1.0, monkeypatch)[0])
    assert without.min() == pytest.approx(alone, abs=0.01)
    assert without.max() < 0.03


def test_steps_in_16_bits_keep_more_than_those_in_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """One share fits neither: on Hopper compiled steps in 16 bits are forecast slow, those in 8 bits quick."""
    found = np.expm1(errors("hopper", TRAINING_DERATING[CHIP["hopper"]], monkeypatch)[0])
    assert found[0] > 0.08
    assert np.all(found[1:5] < -0.03)
    assert abs(found[5]) < 0.1


def test_layers_of_transformer_engine_take_longer_at_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 14 on an H100, of 14 and 38 on an H200: what is missing does not grow with the batch."""
    monkeypatch.setattr(gemm_derating, "TRAINING_DERATING", TRAINING_DERATING)
    missing_s = [measured - forecast for forecast, measured in (step.seconds() for step in STEPS["hopper"][1:4])]
    assert min(missing_s) > 0.025
    assert max(missing_s) < 0.045


def test_fused_attention_and_casts_keep_their_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attention's kernel was timed as such, and so were casts to 8 bits: only products of matrices are slower."""
    model, gpu = load_model("gpt-2x1024x8-seq512-vocab1024-fused"), load_gpu("h100")
    found = {}
    for share in (1.0, 0.5):
        monkeypatch.setattr(gemm_derating, "TRAINING_DERATING", {CHIP["hopper"]: share})
        found[share] = estimate_layers(replace(model), gpu, 8, "amp-bf16").layers
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
            if load_gpu(name).product_share is None:
                found[name] = constants_of(load_gpu(name), "tensor").chip
        except InputError:
            continue
    return found


@pytest.mark.parametrize(("name", "chip"), on_tensor_cores().items())
def test_who_borrows_a_chips_constants_borrows_its_share(name: str, chip: str) -> None:
    """Large products reach in training the same share of the peak on every GPU that has the constants of one chip."""
    constants, layer = constants_of(load_gpu(name), "tensor"), load_model(NANOCHAT).layers
    share = TRAINING_DERATING.get(chip, 1.0)
    large = fit_document()["chips"][chip]["efficiency"]["matmul_forward"]
    product = next(each for each in layer if each.op == "fully-connected")
    assert gemm_derating.gemm_derating(product, constants) == share
    assert gemm_derating.derated_constants(constants).efficiency["matmul_forward"] == pytest.approx(large * share)


def test_blackwell_has_a_share_of_its_own() -> None:
    blackwell = on_tensor_cores()["b200"]
    assert {*CHIP.values(), blackwell} == set(TRAINING_DERATING)


def test_ordinary_units_have_none() -> None:
    model = load_model(NANOCHAT)
    products = [each for each in model.layers if each.op == "fully-connected"]
    ordinary = constants_of(load_gpu("b200"), "ordinary")
    assert {gemm_derating.gemm_derating(each, ordinary) for each in products} == {1.0}
