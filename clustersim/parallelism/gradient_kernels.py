"""What codes move of gradients through a GPU's memory beside products, collectives and the optimizer's update.

Counted in their sources, in bytes of a parameter, with w of a weight as layers read it and g of a gradient as it is
summed: `each` behind every micro-batch, of all that a GPU has, `each_share` likewise, of what it updates, `further`
behind all but the first; `before` copies exchange them and `after` it, of all that a GPU has, and `share` of what it
updates, once an iteration; `room` with each bucket, of all that it has room for:

- `autograd`: PyTorch adds what a further pass gives to the gradient that is there, two reads and a write
  (`accumulateGrad` in torch/csrc/autograd/functions/accumulate_grad.h).
- `deepspeed-bf16`: DeepSpeed's BF16_Optimizer (deepspeed/runtime/bf16_optimizer.py, commit 06e39a56) casts a pass's
  gradients to fp32, w + 4, and adds them to sums, 12 (`update_hp_grads`). Sums are cast to 16 bits, 4 + w, divided,
  2 w, and after the exchange cast back, w + 4 (`allreduce_bucket` in deepspeed/runtime/engine.py); all of them are
  read for their norm, 4, and set to zero, 4; updated weights are cast, 4 + w (`update_lp_params`).
- `deepspeed-bf16-0.12`: the same from 2023 until pull request 5434 (April 2024) gave up a pass's gradients as before.
  Release 0.12.6 sets them to zero instead, w (`clear_lp_grads`), so that autograd adds to what is there, 3 w.
- `deepspeed-zero`: DeepSpeed's stages 0 to 2 as they are by default from July 2021 on, when `contiguous_gradients`
  became true (pull request 1199; deepspeed/runtime/zero/constants.py, commit e3e35d67), which stage 1 leaves out
  whatever is asked (pull request 1246; deepspeed/runtime/engine.py, `_configure_zero_optimizer`;
  runtime/zero/stage_1_and_2.py of 0.5). In stages 0 and 1 gradients are put together, 2 g, divided, 2 g, and copied
  back after an all-reduce, 2 g (`allreduce_bucket`, `allreduce_and_copy`; `buffered_allreduce_fallback` of stage 0):
  every copy gets all of its sum. In stage 2 each is copied into the bucket's buffer as it comes, 2 g, all of the
  buffer is divided, full or not, 2 g of its room, each stretch is reduced to the copy that updates it (`owned_runs`),
  and that copies what is its own out of the buffer, 2 g (`average_tensor`, `copy_grads_in_partition`). Checked for
  what is no number, halves cast to fp32 first, g + 8 or 4 (`_has_inf_or_nan`), are all gradients in stages 0 and 1,
  and what is updated in stage 2. What is updated is read for its norm in fp64, g + 16 (stage 0: fp32, g + 8), put
  together, 2 g, cast to fp32, g + 4, unscaled, 8, and copied to the weights, 4 + w. Gathered weights are copied out of
  one tensor, 2 w (`all_gather` in torch/lib/c10d/ProcessGroupNCCL.cpp). In fp32 stage 0 checks and scales nothing.
- `internlm`: InternLM's hybrid ZeRO optimizer (internlm/solver/optimizer/hybrid_zero_optim.py and utils.py, commits
  01e7fd61 and 099e1cd2) leaves sums to autograd, puts them into a bucket, 2 g, divides them, 2 g, and copies them
  back, 2 g. Of what it updates it casts gradients to fp32 and reads them for their norm, g + 8, puts them together,
  2 g, casts them to fp32, g + 4, scales and clips them, 8, and casts updated weights, 4 + w.
- `megatron`: Megatron-LM's products add to a buffer of sums (`gradient_accumulation_fusion`), which is divided by the
  number of copies before they exchange it, 2 g, and set to zero for the next iteration, g
  (`start_grad_sync` in megatron/core/distributed/param_and_grad_buffer.py, commit 00119989, `reduce_model_grads` in
  megatron/optimizer/distrib_optimizer.py of 2023). What a GPU updates is read for its norm, g, cast to fp32 if it is
  not, g + 4, and updated weights are cast, 4 + w.
- `megatron-llama`: Megatron-LLaMA's OverlappedDistributedOptimizer (`Bucket`, `ParameterBuffer` and `step` in
  megatron/optimizer/overlapped_dist_optimizer.py, alibaba/Megatron-LLaMA, commit 95b57446) casts the gradient that a
  product wrote to the format of sums, w + g if that is another, and copies it into a bucket, 2 g. What comes of the sum
  of copies is divided, 2 g, and added to the slice of earlier micro-batches, 3 g, all of it of what a GPU updates; that
  is read for its norm, g, and set to zero, g, and updated weights are cast, 4 + w. The code does so on a stream of its
  own, beside products; here it takes their time, as it takes memory's rate and processors from them. With sequence
  parallelism GPUs that split layers add up the gradient of each norm before, one all-reduce a tensor behind every
  micro-batch (`_all_reduce_layer_norm_grads`), for which products wait.

Each of these is a kernel for each tensor. Those behind micro-batches a process may have to wait for, one by one
(`waits_of`).

Left out: clipping where a code does so only beyond a limit; checks for what is no number; what a product reads of the
sums that it adds to, beside which it multiplies; launches once an iteration; sums of weights that are no product's,
which Megatron-LM adds by kernels.
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
"""Kinds that leave gradients where autograd has them: who sends these in buckets copies them there and back."""

SUMS_CAST = ("deepspeed-bf16", "deepspeed-bf16-0.12", DEEPSPEED_ZERO)
"""Kinds that send sums in the format of weights, and give every copy all of its sum, also where each updates a slice.
"""

_FP32 = 4.0


class Moved(NamedTuple):
    """Of a parameter: bytes, or seconds, that are moved at each of the times above."""

    each: float = 0.0
    further: float = 0.0
    before: float = 0.0
    after: float = 0.0
    share: float = 0.0
    room: float = 0.0
    each_share: float = 0.0

    def of_micro_batch(self, num: int) -> float:
        """Return what one of `num` micro-batches moves of all that a GPU has, in the mean of all."""
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
    """Return what DeepSpeed's stage 0 (`sharding` None), 1 or 2 moves; nothing for an update that is skipped.

    The first tensor that is checked then overflows, which is not counted.

    >>> deepspeed_zero(2, 2, "zero-1")
    Moved(each=0.0, further=0.0, before=8, after=18.0, share=42.0, room=0.0, each_share=0.0)
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
    return Moved(before=moved, after=2 * weight, share=updated + check + moved, room=moved)


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
"""Kernels of a tensor behind a micro-batch: a cast and a sum, with zeros and another sum before them, or one sum."""


def waits_of(kind: GradientKernels, waited_s: float) -> Moved:
    """Return the seconds of a tensor of parameters in which a process waits for the kernels behind micro-batches."""
    return Moved(*(waited_s * number for number in _KERNELS.get(kind, NOTHING_MOVED)))


def moved_bytes(
    kind: GradientKernels,
    weight_bytes: float,
    gradient_bytes: float,
    sharding: str | None = None,
    is_skipped: bool = False,
) -> Moved:
    """Return the bytes of a parameter that a code moves, whatever copies share out but for `deepspeed-zero`.

    >>> moved_bytes("deepspeed-bf16", 2, 4)
    Moved(each=18.0, further=0.0, before=10.0, after=14.0, share=6.0, room=0.0, each_share=0.0)
    >>> moved_bytes("autograd", 2, 2)
    Moved(each=0.0, further=6, before=0.0, after=0.0, share=0.0, room=0.0, each_share=0.0)
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
    """Return the seconds of a parameter, at the memory rate that element-wise kernels reach.

    One copy has nothing to exchange, and so nothing `before` it and no bucket. What moves of a share behind every
    micro-batch is 1 / `num_replicas` of all that a GPU has, and in `each`.
    """
    rate = constants_of(gpu, units).memory_efficiency * gpu.memory_bytes_per_s
    moved = moved_bytes(kind, weight_bytes, gradient_bytes, sharding, is_skipped)
    if num_replicas == 1:
        moved = moved._replace(before=0.0, room=0.0)
    moved = moved._replace(each=moved.each + moved.each_share / num_replicas, each_share=0.0)
    return Moved(*(each / rate for each in moved))
