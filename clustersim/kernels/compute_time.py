"""Where layer times come from: measured beats published beats estimated, and each says which it is.

A published rate fixes how fast one GPU trains as a whole; the kernel model then says how the time is
spread over the layers, and how it changes with the batch and from that GPU to the cluster's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.fused_attention import AttentionKernel, with_kernel
from clustersim.kernels.layer_times import OPERATOR_S, Estimate, Library, estimate_layers
from clustersim.kernels.memo import once
from clustersim.kernels.memory import memory_per_gpu
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.profile import read_profile
from clustersim.kernels.programs.channels_last import Layout
from clustersim.kernels.programs.encoder_kernels import casts_gradients
from clustersim.kernels.programs.language_ends import EmbeddingKind, HeadPrecision, with_head_in, with_products
from clustersim.kernels.programs.launches import Launch, with_waits
from clustersim.kernels.published_rates import RateCurve, find_curve
from clustersim.model.casts import TORCHAO, Casts, CastsKind, casts_of
from clustersim.model.catalogue import load_model
from clustersim.model.layer import LayerTime, Model, Workload
from clustersim.model.precision import PRECISIONS, precision_on
from clustersim.spec import Spec
from clustersim.units import format_duration, format_size


class SingleGpuRate(Spec):
    """How fast one GPU trains, as somebody published it: forward, backward and update."""

    samples_per_s: float = Field(gt=0, allow_inf_nan=False, description="samples one GPU trains in a second")
    batch: int = Field(ge=1, description="the batch it was measured at")
    gpu: str | None = Field(
        default=None, description="the GPU it was measured on, by its sheet; the cluster's if not given"
    )
    model: str | None = Field(
        default=None,
        description="the model of the catalogue it was measured with, of the same make; the scenario's if not given",
    )
    batches_per_update: int = Field(
        default=1, ge=1, description="batches whose gradients that GPU added up before it updated the weights"
    )
    library: Library | None = Field(
        default=None, description="whose kernels it was measured with; those of `compute.library` if not given"
    )
    source: str = Field(min_length=1, description="who measured it: document, page, date")

    @field_validator("model")
    @classmethod
    def _is_known(cls, model: str | None) -> str | None:
        """Refuse a model that the catalogue does not have."""
        if model is not None:
            load_model(model)
        return model


class ComputeSpec(Spec):
    """Where layer times come from; with nothing given, the best that is known (measured, published, estimated)."""

    single_gpu: SingleGpuRate | None = Field(
        default=None, description="scale the estimated layer times so that one GPU trains at this published rate"
    )
    profile: str | None = Field(
        default=None,
        description="layer times measured on the cluster's kind of GPU: a clustersim.profile/1 file, or the name "
        "of a shipped one",
    )

    layout: Layout | None = Field(
        default=None,
        description="the order of images in memory, `nchw` (channels first) or `nhwc` (channels last, PyTorch's "
        "`channels_last`): of a profile that has several, or of estimates, whose maps are turned over around "
        "convolutions on tensor cores unless channels lie last. If not given, that of the published rate that is "
        "scaled to, and else channels first",
    )

    library: Library = Field(
        default="cudnn",
        description="whose kernels estimates count: `cudnn`'s convolutions; `cudnn-fused`: the same, and batch norms "
        "with the sum and the ReLU behind them in one kernel (16 bits, channels last); `cudnn-turned`: as `cudnn`, "
        "with batch norms whose maps are turned over to channels first and back, as TensorFlow's without "
        "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT (16 bits, channels last); `eager`: as `cudnn`, and RMS "
        "norms, rotary positions, gates, residual sums and the loss in several kernels each, as PyTorch has them "
        "without `torch.compile`; `megatron`: as `cudnn`, with Megatron-LM's loss in several kernels and, where "
        "attention is fused, TransformerEngine's choice of the kernel; `megatron-2023`: Megatron-LM's own transformer "
        "(FlagScale), with rotary positions and gates in several kernels too; `megatron-deepspeed`: the same as "
        "Megatron-DeepSpeed had it until July 2024, which takes queries, keys and values in slices, on PyTorch 2.2 or "
        "later, where nothing fuses its residual sums; `nemo-2023`: NeMo's transformer of 2023 with bias and GELU "
        "apart, as it trains images and CLIP, in 16 bits; `nemo-2023-autocast`: the same with fp32 weights under "
        "autocast (`megatron_amp_O2: False`); `internlm`: InternLM's; `fms`: IBM's foundation-model-stack of early "
        "2024; `huggingface-2021`: GPT-2 of Hugging Face's transformers 4.3 to 4.12 on PyTorch 1.8 to 1.10, in 32 bits "
        "or, as `model.half()` has it, in 16; `huggingface-2021-autocast`: the same with fp32 weights under autocast; "
        "`huggingface-2023`: Llama of 4.35; "
        "`diffusers-2023`: U-Nets of diffusers 0.12, whose attention is xFormers'; "
        "`nvidia-gnmt`: GNMT of NVIDIA's example, whose attention and loss are single operations; `mlperf-gnmt`: that "
        "of NVIDIA's rounds of MLPerf, which fuse both; "
        "`eager-2020` and `xla`: `cudnn`'s, and what "
        "PyTorch 1.4 to 1.8, or a program that XLA compiled, moves around the products of an encoder such as BERT; "
        "`unrolled`: windows written out and a matrix product an image, as Caffe and Torch-7 have without cuDNN",
    )

    embedding: EmbeddingKind = Field(
        default="lookup",
        description="how a language model gets the features of its words: by a `lookup` in a table, or by the "
        "`product` of one-hot rows with it (MaxText's `use_iota_embed`, Praxis's `lookup_style` \"matmul\")",
    )

    head: HeadPrecision = Field(
        default="as-others",
        description="the precision of a language model's last product, that of logits: `as-others`, or `tf32`, where a "
        "code has it in fp32 (MaxText's `logits_dot_in_fp32`)",
    )

    attention: AttentionKernel | None = Field(
        default=None,
        description="the kernel of fused attention: `flash-attention`, `flash-attention-2`, `flash-attention-3`, or "
        "`cudnn`'s of version 9, which differ on Hopper, and the first everywhere. If not given, the model's own, or "
        "else what `library` has: TransformerEngine's choice with `megatron`, FlashAttention-2 with all others",
    )

    casts: CastsKind = Field(
        default="torchao",
        description="for `precision: amp-fp8`: whose casts to 8 bits: `torchao`'s; TransformerEngine's with delayed "
        "scaling, weights at every pass (`te`) or once for all micro-batches of an update (`te-cached`, as Megatron-LM "
        "has it); or `te-current-cached`, with scales of the tensors themselves",
    )

    launch: Launch = Field(
        default="queued",
        description="how a process issues kernels: ahead of the GPU, that has them in a queue (`queued`), or each when "
        "the one before is done (`blocking`; CUDA_LAUNCH_BLOCKING=1), so that nothing is beside compute and "
        "`strategy.overlap` must be false",
    )

    variability: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="standard deviation over mean of what GPUs of one kind take for the same work, which makes those "
        "that wait for each other as slow as the slowest; 0 where all are alike. If not given, the GPU's sheet says, "
        "and 0 where the workload's file gives times or `stragglers` say which GPUs are slow all the time",
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.single_gpu and self.profile:
            raise InputError("single_gpu and profile both say where layer times come from; keep one")
        if self.profile and self.library != "cudnn":
            raise InputError(
                "a profile has the times of the library it was measured with; drop library, or the profile"
            )
        if self.profile and (self.embedding, self.head, self.casts) != ("lookup", "as-others", "torchao"):
            raise InputError("a profile has the times of layers as they ran; drop embedding, head and casts")
        if self.profile and self.attention:
            raise InputError("a profile has the times of the kernels that it was measured with; drop attention")
        if self.single_gpu and self.head != "as-others":
            raise InputError("single_gpu scales all layers alike, the last product too; drop head, or single_gpu")
        if self.profile and self.launch != "queued":
            raise InputError("a profile has the times of kernels in a queue; drop launch, or the profile")
        return self


@once(64)
def build_workload(
    model: Model,
    gpu: Gpu,
    batch: int,
    precision: str,
    optimizer: OptimizerSpec,
    compute: ComputeSpec,
    given_times: Sequence[LayerTime | None] | None = None,
    gradient_bytes: float = 4.0,
    num_passes: int = 1,
) -> Workload:
    """Return one iteration's work on one GPU, with what it stands on as sentences.

    `batch` is this GPU's, and an update is of `num_passes` such batches. `given_times` are a workload file's, layer by
    layer, and `gradient_bytes` what a gradient takes on the wire. Layers without a measured time take a scaled or plain
    estimate.
    """
    number = precision_on(gpu, precision)
    model = with_products(model) if compute.embedding == "product" else model
    model = with_kernel(model, compute.attention) if compute.attention else model
    given = given_times is not None and any(given_times)
    is_blocking = compute.launch == "blocking"
    is_told = given or compute.profile or compute.single_gpu or compute.library != "cudnn"
    curve = None if is_told else find_curve(model, gpu, batch, precision)
    layout = "nchw" if compute.profile else compute.layout or (curve.layout if curve else "nchw")
    operator_s = 0.0 if is_blocking else OPERATOR_S
    casts = casts_of(compute.casts, num_passes)
    casts_back = casts_gradients(compute.library, number, gradient_bytes, num_passes)
    estimate = estimate_layers(
        model, gpu, batch, precision,
        library=compute.library, layout=layout, operator_s=operator_s, casts=casts, casts_back=casts_back,
    )  # fmt: skip
    layers, assumptions = _layer_times(model, gpu, batch, precision, optimizer, compute, given_times, estimate, curve)
    if compute.head != "as-others":
        layers = with_head_in(compute.head, layers, model, gpu, batch, compute.library)
    if is_blocking:
        layers = with_waits(layers, compute.library)
    update_s = _measured_optimizer_s(model, optimizer, compute)
    return Workload(
        model=model,
        batch=batch,
        precision=precision,
        layers=layers,
        optimizer_s=_optimizer_s(model, gpu, precision, optimizer) if update_s is None else update_s,
        gradient_bytes_per_parameter=gradient_bytes * model.weight_share,
        memory_bytes=memory_per_gpu(model, batch, number.name, optimizer),
        assumptions=(*assumptions, *_compressed(model)),
        gpu=gpu,
        layout=layout,
        launch=compute.launch,
        casts=casts,
        casts_back=casts_back,
    )


def _compressed(model: Model) -> tuple[str, ...]:
    if model.weight_share == 1:
        return ()
    return (
        f"Weights of {model.name} are stored in {format_size(model.weight_bytes)}; what is exchanged for them is "
        "assumed to shrink alike, and no kernel to be quicker.",
    )


def _layer_times(
    model: Model,
    gpu: Gpu,
    batch: int,
    precision: str,
    optimizer: OptimizerSpec,
    compute: ComputeSpec,
    given_times: Sequence[LayerTime | None] | None,
    estimate: Estimate,
    curve: RateCurve | None,
) -> tuple[tuple[LayerTime, ...], tuple[str, ...]]:
    given = given_times is not None and any(given_times)
    if given and (compute.single_gpu or compute.profile):
        raise InputError(
            f"{model.name} gives times of its own, and compute gives others; drop one of the two",
            allowed="times in the workload file, or compute",
        )
    if given_times is not None and given:
        return _filled(given_times, estimate, f"the file of {model.name}")
    if compute.profile:
        times = read_profile(compute.profile).layer_times(model, gpu, batch, precision, compute.layout)
        return _filled(times, estimate, compute.profile)
    if compute.single_gpu:
        factor, sentence = _single_gpu_factor(model, gpu, precision, optimizer, compute.single_gpu, compute)
        return _scaled(estimate, factor), (sentence, *estimate.assumptions)
    if curve:
        factor, sentence = _curve_factor(gpu, batch, optimizer, curve)
        if curve.model != model.name:
            sentence += f" {model.name} multiplies the same matrices as {curve.model}, whose rates these are."
        return _scaled(estimate, factor), (sentence, *estimate.assumptions)
    return estimate.layers, estimate.assumptions


def _scaled(estimate: Estimate, factor: float) -> tuple[LayerTime, ...]:
    return tuple(layer.scaled(factor, "published") for layer in estimate.layers)


def _filled(
    times: Sequence[LayerTime | None], estimate: Estimate, source: str
) -> tuple[tuple[LayerTime, ...], tuple[str, ...]]:
    """Return measured times, estimates where there is none, and which is which."""
    layers = tuple(time or guess for time, guess in zip(times, estimate.layers, strict=True))
    count = {name: sum(layer.provenance == name for layer in layers) for name in ("measured", "estimated")}
    sentences = [f"Times of {count['measured']} of {len(layers)} layers are measured ({source})."]
    missing = [guess.layer.name for time, guess in zip(times, estimate.layers, strict=True) if time is None]
    beyond = count["estimated"] - len(missing)
    if beyond:
        sentences.append(
            f"{beyond} layers are estimated from measured ones at other batches, beyond which this one is."
        )
    if missing:
        sentences += [f"{len(missing)} layers, such as '{missing[0]}', are estimated.", *estimate.assumptions]
    return layers, tuple(sentences)


def _single_gpu_factor(
    model: Model, gpu: Gpu, precision: str, optimizer: OptimizerSpec, rate: SingleGpuRate, compute: ComputeSpec
) -> tuple[float, str]:
    measured_on = load_gpu(rate.gpu) if rate.gpu else gpu
    trained = load_model(rate.model) if rate.model else model
    factor = rate_factor(
        trained, measured_on, rate.batch, precision, optimizer, rate.samples_per_s,
        rate.library or compute.library, rate.batches_per_update, compute.layout or "nchw",
        casts_of(compute.casts, rate.batches_per_update),
    )  # fmt: skip
    others = [name for name, known in ((gpu.name, measured_on.name), (model.name, trained.name)) if name != known]
    there = f"; {' on '.join(reversed(others))} is taken to be off by the same factor" if others else ""
    of_model = "" if trained.name == model.name else f" of {trained.name}"
    by = f" with {rate.library}'s kernels" if rate.library and rate.library != compute.library else ""
    return factor, (
        f"Layer times are {factor:.2f} times their estimates, so that one {measured_on.name} at batch {rate.batch} "
        f"trains {rate.samples_per_s:g} {trained.sample}s/s{of_model}{by} ({rate.source}){there}."
    )


def _curve_factor(gpu: Gpu, batch: int, optimizer: OptimizerSpec, curve: RateCurve) -> tuple[float, str]:
    """Return the factor at this batch: between published batches linear in log(batch), beyond them the last one's."""
    batches = sorted(curve.samples_per_s)
    model = load_model(curve.model)
    factors = [
        rate_factor(model, gpu, known, curve.precision, optimizer, curve.samples_per_s[known], layout=curve.layout)
        for known in batches
    ]
    factor = float(np.interp(log(batch), [log(known) for known in batches], factors))
    beyond = ""
    if curve.distance(batch) > 0:
        nearest = batches[0] if batch < batches[0] else batches[-1]
        beyond = f"; nothing was published at batch {batch}, so the factor is that of {nearest}"
    return factor, (
        f"Layer times are {factor:.2f} times their estimates, by the published rates of one {curve.gpu} at batch "
        f"{', '.join(map(str, batches))} with {curve.software} ({curve.source}){beyond}."
    )


def rate_factor(
    model: Model,
    gpu: Gpu,
    batch: int,
    precision: str,
    optimizer: OptimizerSpec,
    samples_per_s: float,
    library: Library = "cudnn",
    batches_per_update: int = 1,
    layout: Layout = "nchw",
    casts: Casts = TORCHAO,
) -> float:
    """Return what estimated layer times are to be multiplied with to train at a rate, the update's time kept.

    A rate is of iterations that update, whatever those that are forecast do.

    factor = (batch / rate - update / batches an update) / (forward + backward), all of one GPU at that batch.
    """
    estimate = estimate_layers(model, gpu, batch, precision, library=library, layout=layout, casts=casts)
    estimated_s = sum(layer.forward_s + layer.backward_s for layer in estimate.layers)
    updates = optimizer.model_copy(update={"skipped": False})
    wanted_s = batch / samples_per_s - _optimizer_s(model, gpu, precision, updates) / batches_per_update
    if wanted_s <= 0:
        raise InputError(
            f"at {samples_per_s:g} {model.sample}s/s a batch of {batch} takes {format_duration(batch / samples_per_s)} "
            f"on {gpu.name}, less than its optimizer's update alone; check samples_per_s, batch and gpu",
            got=f"{samples_per_s:g}",
        )
    if estimated_s <= 0:
        raise InputError(f"{model.name} has no layer that takes time, so that no rate can be reached by scaling it")
    return wanted_s / estimated_s


def _measured_optimizer_s(model: Model, optimizer: OptimizerSpec, compute: ComputeSpec) -> float | None:
    if compute.profile is None or optimizer.skipped:
        return None
    return read_profile(compute.profile).optimizer_s(model, optimizer.kind)


def _optimizer_s(model: Model, gpu: Gpu, precision: str, optimizer: OptimizerSpec) -> float:
    number = PRECISIONS[precision]
    launches = sum(1 for layer in model.layers if layer.num_parameters)
    copy_bytes = number.weight_bytes if number.master_bytes else 0.0
    return optimizer.update_s(model.num_parameters, gpu, launches=launches, copy_bytes=copy_bytes)
