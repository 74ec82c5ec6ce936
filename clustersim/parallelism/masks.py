"""Masks of attention that a process makes on its host, one for each micro-batch, while its GPU waits.

Megatron-DeepSpeed's stages take what a micro-batch needs from `get_ltor_masks_and_position_ids` (megatron/utils.py,
called by `get_batch_pipe` in pretrain_gpt.py), which makes a mask of s x s numbers even where attention is fused and
has no use for it; without stages such a run skips it. Ones are written in fp32, those above the diagonal are cut off
into a second tensor, and the comparison with a half is a third one of bytes, which goes to the GPU:

    seconds = (4 + 4 + 1) s^2 / `FRESH_BYTES_PER_S`

whatever the number of samples, by one thread: torchrun sets OMP_NUM_THREADS=1 for several processes a host. Memory for
tensors of this size is new each time (malloc maps it anew), so what takes the time is that the system hands out pages.

Left out: reading, cutting off and comparing, and the copy to the GPU.
"""

from __future__ import annotations

from clustersim.workload import Model

FRESH_BYTES_PER_S = 2.2e9
"""At which rate a core writes to memory that is new to its process, in pages of 4 KiB.

5,000 x 5,000 ones in fp32 are made 22 times a second, 63 times with pages of 2 MiB (huggingface/candle, issue 2149)."""

_FRESH_BYTES = 4 + 4 + 1


def mask_seconds(model: Model) -> float:
    """Return how long a process makes a mask of a sequence's tokens by tokens; nothing where there is no attention."""
    num_tokens = max((layer.shape["rows"] for layer in model.layers if layer.op == "matmul"), default=0)
    return _FRESH_BYTES * num_tokens**2 / FRESH_BYTES_PER_S
