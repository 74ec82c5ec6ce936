"""Chooses the source of layer times: measured before published before estimated, and marks each with its source.

A published rate fixes how fast one GPU trains as a whole. The kernel model then distributes the time over the layers,
and scales it with the batch and from that GPU to the cluster's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.fused_attention import AttentionKernel, with_kernel
from clustersim.kernels.host_issue import host_of, with_issue
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.layer_times import Estimate, Library, estimate_layers
from clustersim.kernels.measured_tables import Kernels, chosen_kernels
from clustersim.kernels.memory import memory_per_gpu
from clustersim.kernels.narrow_gemms import narrow_inputs
from clustersim.kernels.optimizer import OptimizerSpec, UpdateWork
from clustersim.kernels.profile import read_profile
from clustersim.kernels.programs.blocking_launches import Launch, update_wait_s, with_launch_waits
from clustersim.kernels.programs.channels_last import Layout
from clustersim.kernels.programs.embedding_and_head import (
    EmbeddingKind,
    HeadPrecision,
    with_head_precision,
    with_one_hot_embedding,
)
from clustersim.kernels.programs.encoder_kernels import casts_gradients
from clustersim.kernels.published_rates import RateCurve, find_curve
from clustersim.kernels.rate_factor import RateFactor, factor_for
from clustersim.model.casts import TORCHAO, Casts, CastsKind, casts_of
from clustersim.model.catalogue import load_model
from clustersim.model.layer import NO_HOST, LayerTime, Model, Workload
from clustersim.model.precision import PRECISIONS, precision_on
from clustersim.program.issue import issue_times
from clustersim.software import load_host, load_software
from clustersim.spec import Spec, of_software
from clustersim.units import format_duration, format_size

CURVE_LIBRARIES = ("cudnn", "eager")
"""Libraries whose layers may be scaled to a published rate of the catalogue."""


class SingleGpuRate(Spec):
    """A published training rate of one GPU: forward, backward and update."""

    samples_per_s: float = Field(gt=0, allow_inf_nan=False, description="samples one GPU trains in a second")
    batch: int = Field(ge=1, description="the batch it was measured at")
    gpu: str | None = Field(
        default=None, description="the GPU it was measured on, as the name of a sheet; the cluster's if not given"
    )
    model: str | None = Field(
        default=None,
        description="the catalogue's model it was measured with, of the same kind; the scenario's if not given",
    )
    batches_per_update: int = Field(
        default=1, ge=1, description="batches whose gradients that GPU summed before it updated the weights"
    )
    software: str | None = Field(
        default=None,
        description="the software it was measured with, as the name of a sheet; the scenario's if not given",
    )
    source: str = Field(min_length=1, description="who measured it: document, page, date")

    @field_validator("model")
    @classmethod
    def _is_known(cls, model: str | None) -> str | None:
        """Refuse a model that is not in the catalogue."""
        if model is not None:
            load_model(model)
        return model

    @field_validator("software")
    @classmethod
    def _is_a_sheet(cls, software: str | None) -> str | None:
        """Refuse software without a sheet."""
        if software is not None:
            load_software(software)
        return software

    def program(self, compute: ComputeSpec) -> tuple[Library, str]:
        """Return the library and the host of the program that it was measured with."""
        if self.software is None:
            return compute.library, compute.host
        values = load_software(self.software).values
        return values["library"], values["host"]


class ComputeSpec(Spec):
    """Where layer times come from; by default the best known source (measured, published, estimated)."""

    single_gpu: SingleGpuRate | None = Field(
        default=None, description="scale the estimated layer times so that one GPU trains at this published rate"
    )
    profile: str | None = Field(
        default=None,
        description="layer times measured on the cluster's kind of GPU: a clustersim.profile/1 file, or the name "
        "of a shipped one",
    )

    layout: Layout | None = Field(
        json_schema_extra=of_software("image_layout"),
        default=None,
        description="memory layout of images, `nchw` (channels first) or `nhwc` (channels last, PyTorch's "
        "`channels_last`). It selects among a profile's layouts, or applies to estimates: with `nchw`, feature maps "
        "are transposed around convolutions on tensor cores. If not given, the layout of the published rate that "
        "estimates are scaled to, otherwise `nchw`",
    )

    library: Library = Field(
        json_schema_extra=of_software("library"),
        default="cudnn",
        description="the software whose kernels are estimated: `cudnn`'s convolutions; `cudnn-fused`: the same, with "
        "each batch norm and the sum and ReLU behind it fused into one kernel (16 bits, channels last); "
        "`cudnn-turned`: as `cudnn`, with batch norms that are transposed to channels first and back, as in TensorFlow "
        "without TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT (16 bits, channels last); `eager`: as `cudnn`, with RMS "
        "norms, rotary positions, gates, residual sums and the loss in several kernels each, as in PyTorch "
        "without `torch.compile`; `megatron`: as `cudnn`, with Megatron-LM's loss in several kernels and, where "
        "attention is fused, TransformerEngine's choice of the kernel; `megatron-2023`: Megatron-LM's own transformer "
        "(FlagScale), with rotary positions and gates in several kernels too; `megatron-deepspeed`: the same in "
        "Megatron-DeepSpeed until July 2024, which slices queries, keys and values, on PyTorch 2.2 or "
        "later, where residual sums are not fused; `nemo-2023`: NeMo's transformer of 2023 with separate bias and "
        "GELU, as in its training of images and CLIP, in 16 bits; `nemo-2023-autocast`: the same with fp32 weights "
        "under autocast (`megatron_amp_O2: False`); `internlm`: InternLM's; `fms`: IBM's foundation-model-stack of "
        "early 2024; `huggingface-2021`: GPT-2 of Hugging Face's transformers 4.3 to 4.12 on PyTorch 1.8 to 1.10, in "
        "32 bits or, with `model.half()`, in 16; `huggingface-2021-autocast`: the same with fp32 weights under "
        "autocast; `huggingface-2023`: Llama of 4.35; "
        "`diffusers-2023`: U-Nets of diffusers 0.12 with xFormers' attention; "
        "`nvidia-gnmt`: GNMT of NVIDIA's example, whose attention and loss are unfused operations; `mlperf-gnmt`: GNMT "
        "of NVIDIA's MLPerf submissions, which fuse both; "
        "`eager-2020` and `xla`: `cudnn`'s, with the additional traffic of PyTorch 1.4 to 1.8, or of a program "
        "compiled by XLA, around the GEMMs of an encoder such as BERT; "
        "`unrolled`: im2col and one GEMM per image, as in Caffe and Torch-7 without cuDNN",
    )

    host: str = Field(
        json_schema_extra=of_software("host"),
        default="compiled",
        description="how many operators the host of a GPU issues, and how long that takes: a host sheet by name or "
        "file (`clustersim list software-hosts`)",
    )

    kernels: Kernels = Field(
        default="auto",
        description="where the times of single kernels come from that are not measured as part of a layer: `law`, by "
        "formula from the shapes; `measured`, interpolated in the measured tables of the extra `kernels` (products; "
        "fused attention and experts forward; in 16 bits and FP8, on the GPUs of `clustersim list kernels`), by the "
        "law where these have none; `auto`: `measured` where the extra is installed and has the GPU and the precision, "
        "and layers have no measured times, otherwise `law`. A scenario that must forecast the same anywhere states "
        "one of the two",
    )

    embedding: EmbeddingKind = Field(
        json_schema_extra=of_software("embedding"),
        default="lookup",
        description="how a language model computes embeddings: by a `lookup` in a table, or by the "
        "`product` of one-hot rows and the table (MaxText's `use_iota_embed`, Praxis's `lookup_style` \"matmul\")",
    )

    head: HeadPrecision = Field(
        json_schema_extra=of_software("head"),
        default="as-others",
        description="the precision of a language model's output head (the logits' GEMM): `as-others`, or `tf32` for "
        "programs that compute it in fp32 (MaxText's `logits_dot_in_fp32`)",
    )

    attention: AttentionKernel | None = Field(
        json_schema_extra=of_software("attention"),
        default=None,
        description="the kernel of fused attention: `flash-attention`, `flash-attention-2`, `flash-attention-3`, or "
        "`cudnn`'s of version 9. They differ on Hopper; `flash-attention` differs on every GPU. If not given, the "
        "model's own, otherwise that of `library`: TransformerEngine's choice with `megatron`, FlashAttention-2 with "
        "all others",
    )

    casts: CastsKind = Field(
        json_schema_extra=of_software("casts"),
        default="torchao",
        description="for `precision: amp-fp8`, the implementation of casts to FP8: `torchao`'s, or with a scale for "
        "each row `torchao-rowwise`, or of shards of weights, which are then gathered in 8 bits, `torchao-sharded` "
        "(`enable_fsdp_float8_all_gather`); TransformerEngine's with delayed scaling, which casts weights at every "
        "pass (`te`) or once for all micro-batches of an update (`te-cached`, as in Megatron-LM); `te-current-cached`, "
        "with current scaling; or `te-block` and `te-block-cached`, with scales of blocks as in DeepSeek-V3. With "
        "`amp-mxfp8` and `amp-nvfp4` it says whose kernels cast, and whether weights are cast once",
    )

    wide_share: float = Field(
        json_schema_extra=of_software("wide_share"),
        default=0.0,
        ge=0,
        le=1,
        description="for `precision: amp-fp8`, `amp-mxfp8` and `amp-nvfp4`, the share of the linear layers beside the "
        "output head, the last ones, that stay in 16 bits (NVIDIA's recipe for NVFP4 has some 0.16)",
    )

    launch: Launch = Field(
        json_schema_extra=of_software("launch"),
        default="queued",
        description="how a process issues kernels: ahead of the GPU, into a queue (`queued`), or each when "
        "the one before is done (`blocking`; CUDA_LAUNCH_BLOCKING=1), so that nothing overlaps with compute and "
        "`strategy.overlap` must be false; or all at once, as CUDA graphs, so that no GPU waits for its host "
        "(`graphs`)",
    )

    variability: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="coefficient of variation of the time that GPUs of one kind take for the same work. GPUs that "
        "wait for each other are as slow as the slowest. 0: all are equal. If not given, the value of the GPU's sheet, "
        "or 0 where the workload file gives times or a straggler draws the speed of every GPU (`per: gpu`)",
    )

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, host: str) -> str:
        """Refuse a host without a sheet."""
        load_host(host)
        return host

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.single_gpu and self.profile:
            raise InputError("single_gpu and profile are both sources of layer times; keep one")
        mistakes = []
        if self.profile:
            given: dict[str, str | float | None] = {"library": "cudnn", "embedding": "lookup", "head": "as-others"}
            given |= {"casts": "torchao", "attention": None, "launch": "queued", "wide_share": 0.0}
            message = "a profile has the times of the layers and kernels as measured; drop {0}, or profile"
            mistakes = [
                Mistake(message.format(key), key, got=str(getattr(self, key)), allowed="without profile")
                for key, default in given.items()
                if getattr(self, key) != default
            ]
        if self.single_gpu and self.head != "as-others":
            message = "single_gpu scales all layers by one factor, the head too; drop head, or single_gpu"
            mistakes.append(Mistake(message, "head", got=self.head, allowed="without single_gpu"))
        if mistakes:
            raise InputError(mistakes)
        if self.kernels == "measured" and self.launch == "blocking":
            raise InputError("measured kernels were timed without a wait for each; drop launch, or write kernels: law")
        return self


@cached_by_identity(64)
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
    issue_factor: float = 1.0,
    num_shards: int = 1,
) -> Workload:
    """Return one iteration's work on one GPU, with its assumptions as sentences.

    `batch` is this GPU's, and an update has `num_passes` such batches. `given_times` are a workload file's, layer by
    layer, and `gradient_bytes` is a gradient's size on the wire. The host takes `issue_factor` times as long as on the
    program's sheet to issue kernels. Weights are in `num_shards` shards where ranks cast them before a gather. Layers
    without a measured time get an estimate, scaled where a rate is known.
    """
    number = precision_on(gpu, precision)
    model = with_one_hot_embedding(model) if compute.embedding == "product" else model
    model = with_kernel(model, compute.attention) if compute.attention else model
    given = given_times is not None and any(given_times)
    is_blocking = compute.launch == "blocking"
    has_source = given or compute.profile or compute.single_gpu or compute.library not in CURVE_LIBRARIES
    curve = None if has_source else find_curve(model, gpu, batch, precision)
    layout = "nchw" if compute.profile else compute.layout or (curve.layout if curve else "nchw")
    casts = casts_of(compute.casts, num_passes, precision, compute.wide_share, num_shards)
    casts_back = casts_gradients(compute.library, number, gradient_bytes, num_passes)
    needs_law = (given or compute.profile or is_blocking) and compute.kernels == "auto"
    kernels = chosen_kernels("law" if needs_law else compute.kernels, gpu, number)
    estimate = estimate_layers(
        model, gpu, batch, precision,
        library=compute.library, layout=layout, casts=casts, casts_back=casts_back, kernels=kernels,
    )  # fmt: skip
    host_factor = issue_factor if compute.launch == "queued" else 0.0
    layers, host_share, assumptions = _layer_times(
        model, gpu, batch, precision, optimizer, compute, given_times if given else None, estimate, curve, host_factor
    )
    if compute.head != "as-others":
        layers = with_head_precision(compute.head, layers, model, gpu, batch, compute.library)
    if is_blocking:
        layers = with_launch_waits(layers, compute.library, compute.host, precision, issue_factor)
    program, host = load_host(compute.host), NO_HOST
    if compute.launch == "queued" and not (compute.profile or given):
        layers = with_issue(layers, program, precision, host_factor * host_share)
        host = host_of(layers, program, host_factor * host_share)
    update_s = _measured_optimizer_s(model, optimizer, compute)
    if update_s is None:
        waits_s = update_wait_s(host_of(layers, program, issue_factor)) if is_blocking else 0.0
        update_s = _optimizer_s(model, gpu, precision, optimizer) + waits_s
    return Workload(
        model=model,
        batch=batch,
        precision=precision,
        layers=layers,
        optimizer_s=update_s,
        gradient_bytes_per_parameter=gradient_bytes * model.weight_share,
        memory_bytes=memory_per_gpu(
            model, batch, number.name, optimizer, narrow=narrow_inputs(model, precision, casts)
        ),
        assumptions=(*assumptions, *_compressed(model)),
        gpu=gpu,
        layout=layout,
        launch=compute.launch,
        casts=casts,
        casts_back=casts_back,
        host=host,
        issue_factor=issue_factor,
        host_sheet=compute.host,
        kernels=kernels,
    )


def _compressed(model: Model) -> tuple[str, ...]:
    if model.weight_share == 1:
        return ()
    return (
        f"Weights of {model.name} are stored in {format_size(model.weight_bytes)}. Their gradients on the wire are "
        "assumed to shrink by the same factor, and kernels not to be faster.",
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
    host_factor: float,
) -> tuple[tuple[LayerTime, ...], float, tuple[str, ...]]:
    """Return layer times, the factor on what the host takes to issue them, and assumptions as sentences."""
    if given_times is not None and (compute.single_gpu or compute.profile):
        raise InputError(
            f"both {model.name} and compute give layer times; drop one of the two",
            allowed="times in the workload file, or compute",
        )
    if given_times is not None:
        return _filled(given_times, estimate, f"the file of {model.name}")
    if compute.profile:
        times = read_profile(compute.profile).layer_times(model, gpu, batch, precision, compute.layout)
        return _filled(times, estimate, compute.profile)
    if compute.single_gpu:
        factor, sentence = _single_gpu_factor(
            model, gpu, precision, optimizer, compute.single_gpu, compute, host_factor
        )
        return _scaled(estimate, factor.kernels), factor.host, (sentence, *estimate.assumptions)
    if curve:
        factor, sentence = _curve_factor(gpu, batch, optimizer, curve, compute, host_factor)
        if curve.model != model.name:
            sentence += f" These are rates of {curve.model}, which has the same matrix products as {model.name}."
        return _scaled(estimate, factor.kernels), factor.host, (sentence, *estimate.assumptions)
    return estimate.layers, 1.0, estimate.assumptions


def _scaled(estimate: Estimate, factor: float) -> tuple[LayerTime, ...]:
    return tuple(layer.scaled(factor, "published") for layer in estimate.layers)


def _filled(
    times: Sequence[LayerTime | None], estimate: Estimate, source: str
) -> tuple[tuple[LayerTime, ...], float, tuple[str, ...]]:
    """Return measured times, with estimates where there is none, and sentences that count both."""
    layers = tuple(time or estimated for time, estimated in zip(times, estimate.layers, strict=True))
    count = {name: sum(layer.provenance == name for layer in layers) for name in ("measured", "estimated")}
    sentences = [f"Times of {count['measured']} of {len(layers)} layers are measured ({source})."]
    missing = [layer.layer.name for time, layer in zip(times, estimate.layers, strict=True) if time is None]
    beyond = count["estimated"] - len(missing)
    if beyond:
        sentences.append(
            f"{beyond} layers are extrapolated from measured times: this batch is outside the measured range."
        )
    if missing:
        sentences += [f"{len(missing)} layers, such as '{missing[0]}', are estimated.", *estimate.assumptions]
    return layers, 1.0, tuple(sentences)


def _single_gpu_factor(
    model: Model,
    gpu: Gpu,
    precision: str,
    optimizer: OptimizerSpec,
    rate: SingleGpuRate,
    compute: ComputeSpec,
    host_factor: float,
) -> tuple[RateFactor, str]:
    measured_on = load_gpu(rate.gpu) if rate.gpu else gpu
    trained = load_model(rate.model) if rate.model else model
    library, host = rate.program(compute)
    factor = rate_factor(
        trained, measured_on, rate.batch, precision, optimizer, rate.samples_per_s,
        library, rate.batches_per_update, compute.layout or "nchw",
        casts_of(compute.casts, rate.batches_per_update, precision, compute.wide_share),
        compute.kernels, host_factor, host,
    )  # fmt: skip
    others = [name for name, known in ((gpu.name, measured_on.name), (model.name, trained.name)) if name != known]
    there = f"; {' on '.join(reversed(others))} is assumed to need the same factor" if others else ""
    of_model = "" if trained.name == model.name else f" of {trained.name}"
    by = f" with {load_software(rate.software).title}" if rate.software else ""
    return factor, (
        f"Layer times are {factor.kernels:.2f} times their estimates{factor.told}, "
        f"so that one {measured_on.name} at batch {rate.batch} "
        f"trains {rate.samples_per_s:g} {trained.sample}s/s{of_model}{by} ({rate.source}){there}."
    )


def _curve_factor(
    gpu: Gpu, batch: int, optimizer: OptimizerSpec, curve: RateCurve, compute: ComputeSpec, host_factor: float
) -> tuple[RateFactor, str]:
    """Return the factor at this batch: linear in log(batch), constant outside the published range."""
    batches = sorted(curve.samples_per_s)
    model = load_model(curve.model)
    factors = [
        rate_factor(
            model,
            gpu,
            known,
            curve.precision,
            optimizer,
            curve.samples_per_s[known],
            compute.library,
            layout=curve.layout,
            kernels=compute.kernels,
            host_factor=host_factor,
            host=compute.host,
        )
        for known in batches
    ]
    places = [log(known) for known in batches]
    of_kernels, of_host = (np.interp(log(batch), places, column) for column in zip(*factors, strict=True))
    factor = RateFactor(float(of_kernels), float(of_host))
    beyond = ""
    if curve.distance(batch) > 0:
        nearest = batches[0] if batch < batches[0] else batches[-1]
        beyond = f"; no rate is published at batch {batch}, so the factor of batch {nearest} is used"
    return factor, (
        f"Layer times are {factor.kernels:.2f} times their estimates{factor.told}, "
        f"from the published rates of one {curve.gpu} at batch "
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
    kernels: Kernels = "law",
    host_factor: float = 1.0,
    host: str = "compiled",
) -> RateFactor:
    """Return the factor on estimated kernel times with which a GPU trains at a given rate, its host included.

    The time of the update is not scaled. The rate is of iterations that include the update, whatever the forecast
    iterations do. The host takes `host_factor` times as long as on its sheet, and no time if
    that is 0. If it alone would take longer than the rate allows, the host is scaled instead.
    """
    source = chosen_kernels("law" if kernels == "law" else "auto", gpu, PRECISIONS[precision])
    estimate = estimate_layers(
        model, gpu, batch, precision, library=library, layout=layout, casts=casts, kernels=source
    )
    updates = optimizer.model_copy(update={"skipped": False})
    update_s = _optimizer_s(model, gpu, precision, updates)
    if batch / samples_per_s - update_s / batches_per_update <= 0:
        raise InputError(
            f"at {samples_per_s:g} {model.sample}s/s a batch of {batch} takes {format_duration(batch / samples_per_s)} "
            f"on {gpu.name}, less than its optimizer's update alone; check samples_per_s, batch and gpu",
            got=f"{samples_per_s:g}",
        )
    program = load_host(host)
    layers = with_issue(estimate.layers, program, precision, host_factor)
    if sum(layer.forward_s + layer.backward_s for layer in layers) <= 0:
        raise InputError(f"{model.name} has no layer that takes time, so no factor reaches the given rate")
    update = issue_times([(update_s, host_of(layers, program, host_factor).update)])
    return factor_for(layers, update, update_s, batches_per_update, batch / samples_per_s)


def _measured_optimizer_s(model: Model, optimizer: OptimizerSpec, compute: ComputeSpec) -> float | None:
    if compute.profile is None or optimizer.skipped:
        return None
    return read_profile(compute.profile).optimizer_s(model, optimizer.kind)


def _optimizer_s(model: Model, gpu: Gpu, precision: str, optimizer: OptimizerSpec) -> float:
    return update_work(model, gpu, precision, optimizer).seconds


def update_work(model: Model, gpu: Gpu, precision: str, optimizer: OptimizerSpec) -> UpdateWork:
    """Return the update of a model, or of a stage of one, on a GPU."""
    number = PRECISIONS[precision]
    copy_bytes = number.weight_bytes if number.master_bytes else 0.0
    return optimizer.work_of(model.layers, gpu, copy_bytes=copy_bytes)
