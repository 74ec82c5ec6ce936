"""Masks of attention that a process makes on its host, one for each micro-batch, while its GPU waits.

Megatron-DeepSpeed's stages take what a micro-batch needs from `get_ltor_masks_and_position_ids` (megatron/utils.py,
called by `get_batch_pipe` in pretrain_gpt.py), which makes a mask of s x s numbers even where attention is fused and
has no use for it; a run without stages skips it. Ones are written in fp32, those above the diagonal are left out in a
second tensor, and what is below a half makes a third, of bytes, which goes to the GPU. What takes the time is memory
that is new to the process: malloc maps more than `REUSED_BYTES` anew each time, so that the system has to hand out
every page again. So

    seconds = sum over the three, 4 s^2, 4 s^2 and s^2 bytes, of those above `REUSED_BYTES`, / `FRESH_BYTES_PER_S`

whatever the number of samples, by one thread: torchrun sets OMP_NUM_THREADS=1 for several processes a host.

Left out: what these three kernels take on memory that is there, and the copy to the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.model import Layer

FRESH_BYTES_PER_S = 2.2e9
"""At which rate a core writes to memory that is new to its process, in pages of 4 KiB.

5,000 x 5,000 ones in fp32 are made 22 times a second, 63 times with pages of 2 MiB (huggingface/candle, issue 2149)."""

REUSED_BYTES = 32 * 2**20
"""Up to what size glibc's malloc comes to keep for its process what this has given up (mallopt(3), M_MMAP_THRESHOLD:
DEFAULT_MMAP_THRESHOLD_MAX)."""

_BYTES_OF_NUMBER = (4, 4, 1)


def mask_seconds(layers: Sequence[Layer]) -> float:
    """Return how long a process makes a mask of a sequence's tokens by tokens; nothing where there is no attention."""
    num_tokens = max((layer.shape.get("rows", 0) for layer in layers if layer.op == "matmul"), default=0)
    sizes = [each * num_tokens**2 for each in _BYTES_OF_NUMBER]
    return sum(size for size in sizes if size > REUSED_BYTES) / FRESH_BYTES_PER_S
