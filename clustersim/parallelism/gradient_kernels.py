"""Memory traffic of kernels that process gradients apart from those of layers, collectives and the optimizer's update.

Counted in the sources of training codes, in bytes per parameter; w is the size of a weight as layers read it, g that of
a gradient as it is summed. `each`: after every micro-batch, for all gradients of a GPU; `each_share`: the same, for the
share that the GPU updates; `further`: after every micro-batch but the first; `before` and `after`: before and after the
exchange among replicas, once an iteration, for all gradients of a GPU; `share`: once an iteration, for the share that
it updates; `capacity`: with each bucket, for its whole capacity:

- `autograd`: PyTorch adds the gradient of a further pass to the existing one, two reads and a write
  (`accumulateGrad` in torch/csrc/autograd/functions/accumulate_grad.h).
- `deepspeed-bf16`: DeepSpeed's BF16_Optimizer (deepspeed/runtime/bf16_optimizer.py, commit 06e39a56) casts a pass's
  gradients to fp32, w + 4, and adds them to sums, 12 (`update_hp_grads`). Sums are cast to 16 bits, 4 + w, divided,
  2 w, and after the exchange cast back, w + 4 (`allreduce_bucket` in deepspeed/runtime/engine.py); all of them are
  read for their norm, 4, and set to zero, 4; updated weights are cast, 4 + w (`update_lp_params`).
- `deepspeed-bf16-0.12`: the same, from 2023 until pull request 5434 (April 2024) freed a pass's gradients again.
  Release 0.12.6 sets them to zero instead, w (`clear_lp_grads`), so that autograd adds to them, 3 w.
- `deepspeed-zero`: DeepSpeed's stages 0 to 2 with default settings from July 2021 on, when `contiguous_gradients`
  became true (pull request 1199; deepspeed/runtime/zero/constants.py, commit e3e35d67). Stage 1 ignores that setting
  (pull request 1246; deepspeed/runtime/engine.py, `_configure_zero_optimizer`; runtime/zero/stage_1_and_2.py of 0.5).
  In stages 0 and 1 gradients are concatenated, 2 g, divided, 2 g, and copied back after an all-reduce, 2 g
  (`allreduce_bucket`, `allreduce_and_copy`; `buffered_allreduce_fallback` of stage 0): every replica gets the whole
  sum. In stage 2 each gradient is copied into the bucket's buffer when it is complete, 2 g; the whole buffer is
  divided, full or not, 2 g of its capacity; each slice is reduced to the replica that updates it (`gradient_owners`),
  which copies its own slices out of the buffer, 2 g (`average_tensor`, `copy_grads_in_partition`). Checked for infinity
  and NaN, halves cast to fp32 first, g + 8 or 4 (`_has_inf_or_nan`), are all gradients in stages 0 and 1, and those
  that the GPU updates in stage 2. Gradients that the GPU updates are read for their norm in fp64, g + 16 (stage 0: in
  fp32, g + 8), concatenated, 2 g, cast to fp32, g + 4, unscaled, 8, and updated weights are copied, 4 + w. Gathered
  weights are copied out of one tensor, 2 w (`all_gather` in torch/lib/c10d/ProcessGroupNCCL.cpp). In fp32 stage 0
  neither checks nor scales.
- `internlm`: InternLM's hybrid ZeRO optimizer (internlm/solver/optimizer/hybrid_zero_optim.py and utils.py, commits
  01e7fd61 and 099e1cd2) leaves accumulation to autograd, copies sums into a bucket, 2 g, divides them, 2 g, and copies
  them back, 2 g. Of the gradients that a GPU updates it casts them to fp32 and reads them for their norm, g + 8,
  concatenates them, 2 g, casts them to fp32, g + 4, scales and clips them, 8, and casts updated weights, 4 + w.
- `megatron`: Megatron-LM's matrix products add to a buffer of sums (`gradient_accumulation_fusion`), which is divided
  by the number of replicas before the exchange, 2 g, and set to zero for the next iteration, g
  (`start_grad_sync` in megatron/core/distributed/param_and_grad_buffer.py, commit 00119989, `reduce_model_grads` in
  megatron/optimizer/distrib_optimizer.py of 2023). Gradients that a GPU updates are read for their norm, g, cast to
  fp32 if they are not, g + 4, and updated weights are cast, 4 + w.
- `megatron-llama`: Megatron-LLaMA's OverlappedDistributedOptimizer (`Bucket`, `ParameterBuffer` and `step` in
  megatron/optimizer/overlapped_dist_optimizer.py, alibaba/Megatron-LLaMA, commit 95b57446) casts the gradient of a
  matrix product to the format of sums, w + g if that is another, and copies it into a bucket, 2 g. The reduced slice is
  divided, 2 g, and added to the slice of earlier micro-batches, 3 g, all of it for the share that a GPU updates; that
  is read for its norm, g, and set to zero, g, and updated weights are cast, 4 + w. The code does so on a separate
  stream, in parallel with layers; here it takes time of the compute stream, since it takes memory rate and processors
  from the layers. With sequence parallelism a tensor parallel group all-reduces the gradient of each norm first, one
  all-reduce per tensor after every micro-batch (`_all_reduce_layer_norm_grads`), for which compute waits.

Each of these is one kernel per tensor. A process may have to wait for each of those after micro-batches (`waits_of`).

Left out: clipping that a code does only above a limit; other checks for infinity and NaN; reads by a matrix product of
the sums that it adds to, which overlap with the product; launches once an iteration; sums of weights that
belong to no matrix product, which Megatron-LM adds by separate kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import constants_of

GradientKernels = Literal[
    "none",
    "autograd",
    "deepspeed-bf16",
    "deepspeed-bf16-0.12",
    "deepspeed-zero",
    "internlm",
    "megatron",
    "megatron-llama",
]
DEEPSPEED_ZERO = "deepspeed-zero"
MEGATRON_LLAMA = "megatron-llama"
AUTOGRADS = ("none", "autograd")
"""Kinds that leave gradients where autograd has them: codes that send them in buckets copy them there and back."""

SUMS_CAST = ("deepspeed-bf16", "deepspeed-bf16-0.12", DEEPSPEED_ZERO)
"""Kinds that send sums in the format of weights, as an all-reduce even if each replica updates only a slice."""

_FP32 = 4.0


class Moved(NamedTuple):
    """Bytes, or seconds, per parameter at each of the times listed above."""

    each: float = 0.0
    further: float = 0.0
    before: float = 0.0
    after: float = 0.0
    share: float = 0.0
    capacity: float = 0.0
    each_share: float = 0.0

    def of_micro_batch(self, num: int) -> float:
        """Return what one of `num` micro-batches moves for all gradients of a GPU, as the mean of all micro-batches."""
        return self.each + self.further * (num - 1) / num


NOTHING_MOVED = Moved()


def _autograd(_: float, gradient: float) -> Moved:
    return Moved(further=3 * gradient)


def _deepspeed_bf16(weight: float, _: float) -> Moved:
    cast = weight + _FP32
    return Moved(each=cast + 3 * _FP32, before=cast + 2 * weight, after=cast + 2 * _FP32, share=cast)


def _deepspeed_bf16_0_12(weight: float, gradient: float) -> Moved:
    moved = _deepspeed_bf16(weight, gradient)
    return moved._replace(each=moved.each + 4 * weight)


def deepspeed_zero(weight: float, gradient: float, sharding: str | None, is_skipped: bool = False) -> Moved:
    """Return what DeepSpeed's stage 0 (`sharding` None), 1 or 2 moves.

    A skipped update moves nothing after its check: the first tensor that is checked then overflows, which is not
    counted.

    >>> deepspeed_zero(2, 2, "zero-1")
    Moved(each=0.0, further=0.0, before=8, after=18.0, share=42.0, capacity=0.0, each_share=0.0)
    """
    if is_skipped:
        is_whole = sharding != "zero-2"
        left = {"after": 2 * gradient * is_whole, "share": 2 * gradient * (not is_whole)}
        return deepspeed_zero(weight, gradient, sharding)._replace(**left)
    is_half = gradient < _FP32
    cast, check = (gradient + _FP32, gradient + 2 * _FP32) if is_half else (0.0, gradient)
    scaled, copied = 2 * _FP32, _FP32 + weight
    if sharding is None:
        updated = gradient + 2 * _FP32 + cast + scaled + copied
        return Moved(before=4 * gradient, after=2 * gradient + (check if is_half else 0), share=updated * is_half)
    norm = gradient + 4 * _FP32
    updated = norm + 2 * gradient + cast + scaled + copied
    if sharding == "zero-1":
        return Moved(before=4 * gradient, after=2 * gradient + check + 2 * weight, share=updated)
    moved = 2 * gradient
    return Moved(before=moved, after=2 * weight, share=updated + check + moved, capacity=moved)


def _internlm(weight: float, gradient: float) -> Moved:
    norm, cast, scaled = gradient + 2 * _FP32, gradient + _FP32, 2 * _FP32
    share = norm + 2 * gradient + cast + scaled + _FP32 + weight
    return Moved(further=3 * gradient, before=4 * gradient, after=2 * gradient, share=share)


def _megatron(weight: float, gradient: float) -> Moved:
    cast = gradient + _FP32 if gradient != _FP32 else 0.0
    return Moved(before=2 * gradient, after=gradient, share=gradient + cast + _FP32 + weight)


def _megatron_llama(weight: float, gradient: float) -> Moved:
    cast = weight + gradient if weight != gradient else 0.0
    share = 2 * gradient + _FP32 + weight
    return Moved(each=cast + 2 * gradient, share=share, each_share=5 * gradient)


_OF_KIND: Mapping[str, Callable[[float, float], Moved]] = {
    "none": lambda weight, gradient: NOTHING_MOVED,
    "autograd": _autograd,
    "deepspeed-bf16": _deepspeed_bf16,
    "deepspeed-bf16-0.12": _deepspeed_bf16_0_12,
    "internlm": _internlm,
    "megatron": _megatron,
    "megatron-llama": _megatron_llama,
}


_KERNELS = {
    "autograd": Moved(further=1),
    "deepspeed-bf16": Moved(each=2),
    "deepspeed-bf16-0.12": Moved(each=4),
    "internlm": Moved(further=1),
}
"""Kernels per tensor after a micro-batch: a cast and a sum, with zeroing and another sum before them, or one sum."""


def waits_of(kind: GradientKernels, waited_s: float) -> Moved:
    """Return the seconds per tensor of parameters in which a process waits for kernels after micro-batches."""
    return Moved(*(waited_s * number for number in _KERNELS.get(kind, NOTHING_MOVED)))


def moved_bytes(
    kind: GradientKernels,
    weight_bytes: float,
    gradient_bytes: float,
    sharding: str | None = None,
    is_skipped: bool = False,
) -> Moved:
    """Return the bytes per parameter that a code moves; only those of `deepspeed-zero` depend on the sharding.

    >>> moved_bytes("deepspeed-bf16", 2, 4)
    Moved(each=18.0, further=0.0, before=10.0, after=14.0, share=6.0, capacity=0.0, each_share=0.0)
    >>> moved_bytes("autograd", 2, 2)
    Moved(each=0.0, further=6, before=0.0, after=0.0, share=0.0, capacity=0.0, each_share=0.0)
    """
    if kind == DEEPSPEED_ZERO:
        return deepspeed_zero(weight_bytes, gradient_bytes, sharding, is_skipped)
    return _OF_KIND[kind](weight_bytes, gradient_bytes)


def moved_seconds(
    kind: GradientKernels,
    gpu: Gpu,
    units: str,
    weight_bytes: float,
    gradient_bytes: float,
    num_replicas: int,
    sharding: str | None = None,
    is_skipped: bool = False,
) -> Moved:
    """Return the seconds per parameter, at the memory rate of element-wise kernels.

    A single replica has no exchange, so nothing `before` it and no bucket. What moves for a share after every
    micro-batch is 1 / `num_replicas` of all gradients of a GPU, and is included in `each`.
    """
    rate = constants_of(gpu, units).memory_efficiency * gpu.memory_bytes_per_s
    moved = moved_bytes(kind, weight_bytes, gradient_bytes, sharding, is_skipped)
    if num_replicas == 1:
        moved = moved._replace(before=0.0, capacity=0.0)
    moved = moved._replace(each=moved.each + moved.each_share / num_replicas, each_share=0.0)
    return Moved(*(each / rate for each in moved))
