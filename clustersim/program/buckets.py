"""Assigns gradients to buckets: the gradients of a bucket travel together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.errors import InputError
from clustersim.units import parse

MIB = 1024.0**2
PYTORCH_CAPS = (1 * MIB, 25 * MIB)
"""DistributedDataParallel's defaults: a small first bucket, so that communication starts early."""


@dataclass(frozen=True)
class FusionBuffer:
    """A buffer of `num_bytes` bytes: a bucket closes before the first gradient that does not fit into it."""

    num_bytes: float


Caps = tuple[float, ...] | FusionBuffer | None
"""What closes a bucket: caps in bytes, the last one for all further buckets, or a buffer; None for one bucket."""

HOROVOD_BUFFER = FusionBuffer(64 * MIB)
"""Horovod's default (docs/tensor-fusion.md)."""

_RULES = "auto, pytorch, megatron, horovod, layer, tensor, whole or a size"


def bucket_caps(
    rule: str | float, gradient_bytes: float = 4.0, num_copies: int = 1, is_shared_out: bool = False
) -> Caps:
    """Return the caps that the scenario key `buckets` stands for.

    `rule` is `pytorch`, `megatron`, `horovod`, `layer` or `tensor` (each of them by itself), `whole` or a size. `auto`
    is `megatron` where copies of the model share out the optimizer state (`is_shared_out`), and `pytorch` elsewhere.
    There are `num_copies` of the model, and a parameter's gradient has `gradient_bytes`. Raise InputError for another
    rule, and for a size of 0.

    >>> bucket_caps("layer"), bucket_caps("whole"), bucket_caps("4 MiB")
    ((0.0,), None, (4194304.0,))
    >>> bucket_caps("auto", 4.0, 512, is_shared_out=True)
    (2048000000.0,)
    """
    if rule == "auto":
        rule = "megatron" if is_shared_out else "pytorch"
    named: dict[str | float, Caps] = {
        "pytorch": PYTORCH_CAPS,
        "megatron": (gradient_bytes * megatron_parameters(num_copies),),
        "horovod": HOROVOD_BUFFER,
        "layer": (0.0,),
        "tensor": (0.0,),
        "whole": None,
    }
    if rule in named:
        return named[rule]
    try:
        cap = parse(rule, "size")
    except InputError as error:
        text = f"expected {_RULES}, such as '4 MiB' (got '{rule}')"
        raise InputError(text, got=str(rule), allowed=_RULES) from error
    if cap == 0:
        text = f"a bucket of '{rule}' holds nothing; write `layer` or `tensor` where every gradient travels by itself"
        raise InputError(text, got=str(rule), allowed=f"{_RULES} above 0")
    return (cap,)


def megatron_parameters(num_copies: int) -> float:
    """Return the parameters that close a bucket of Megatron-LM: 40 million, or a million for each copy if that is more.

    So the pieces of a ring stay large enough for the rates of its links to matter, not their latencies
    (megatron/core/distributed/distributed_data_parallel.py).
    """
    return max(40e6, 1e6 * num_copies)


def assign_buckets(num_bytes: Sequence[float], caps: Sequence[float] | FusionBuffer | None) -> list[list[int]]:
    """Put gradients of `num_bytes` [num_gradients], in the order in which they become ready, into buckets.

    Return the numbers of the gradients in each bucket.

    A bucket closes once it holds its cap or more (PyTorch 2.13, reducer.cpp, `compute_bucket_assignment_by_size`), a
    `FusionBuffer` before the first gradient that does not fit (Horovod, `FuseResponses`); a gradient is never split.
    Gradients of no bytes are left out.

    >>> assign_buckets([400e3, 800e3, 20e6, 20e6, 5e6], [1 << 20, 25 << 20])
    [[0, 1], [2, 3], [4]]
    >>> assign_buckets([16e6, 67e6, 411e6, 9e6, 50e6], FusionBuffer(67e6))
    [[0], [1], [2], [3, 4]]
    """
    buckets: list[list[int]] = []
    filling: list[int] = []
    filled = 0.0
    for number, size in enumerate(num_bytes):
        if size <= 0:
            continue
        if isinstance(caps, FusionBuffer):
            is_over = bool(filling) and filled + size > caps.num_bytes
        else:
            is_over = bool(filling) and caps is not None and filled >= caps[min(len(buckets), len(caps) - 1)]
        if is_over:
            buckets.append(filling)
            filling, filled = [], 0.0
        filling.append(number)
        filled += size
    return [*buckets, filling] if filling else buckets
