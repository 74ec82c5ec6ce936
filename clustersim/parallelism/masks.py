"""Attention masks that a process builds on its host, one for each micro-batch, while its GPU waits.

Megatron-DeepSpeed's stages get the inputs of a micro-batch from `get_ltor_masks_and_position_ids` (megatron/utils.py,
called by `get_batch_pipe` in pretrain_gpt.py). It builds a mask of s x s numbers even if attention is fused and does
not use it; a run without stages skips it. It writes ones in fp32, sets those above the diagonal to zero in a second
tensor, and compares with one half into a third tensor, of bytes, which goes to the GPU. The time is that of memory that
is new to the process: malloc maps tensors of more than `REUSED_BYTES` anew each time, so that the system has to provide
every page again. So

    seconds = sum over the three, 4 s^2, 4 s^2 and s^2 bytes, of those above `REUSED_BYTES`, / `FRESH_BYTES_PER_S`

whatever the number of samples, by one thread: torchrun sets OMP_NUM_THREADS=1 for several processes on a host.

Left out: the time of these three kernels on memory that is already mapped, and the copy to the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.model import Layer

FRESH_BYTES_PER_S = 2.2e9
"""Rate at which a core writes to memory that is new to its process, in pages of 4 KiB.

5,000 x 5,000 ones in fp32 are made 22 times a second, 63 times with pages of 2 MiB (huggingface/candle, issue 2149)."""

REUSED_BYTES = 32 * 2**20
"""Largest size of freed memory that glibc's malloc keeps for its process (mallopt(3), M_MMAP_THRESHOLD:
DEFAULT_MMAP_THRESHOLD_MAX)."""

_BYTES_OF_NUMBER = (4, 4, 1)


def mask_seconds(layers: Sequence[Layer]) -> float:
    """Return the seconds in which a process builds a mask of tokens x tokens; 0 if the model has no attention."""
    num_tokens = max((layer.shape.get("rows", 0) for layer in layers if layer.op == "matmul"), default=0)
    sizes = [each * num_tokens**2 for each in _BYTES_OF_NUMBER]
    return sum(size for size in sizes if size > REUSED_BYTES) / FRESH_BYTES_PER_S
