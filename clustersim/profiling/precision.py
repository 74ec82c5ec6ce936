"""Number formats: what each asks of torch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


def use_precision(precision: str, autotune: bool) -> None:
    """Let torch multiply fp32 as 19-bit numbers where the precision says so, and cuDNN try its algorithms or not."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = autotune


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which forward passes run."""
    dtype = _AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def operand_dtype(precision: str) -> torch.dtype:
    """Return what products are computed on."""
    return _AUTOCAST.get(precision, torch.float32)
