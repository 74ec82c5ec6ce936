"""Number formats: the settings of torch for each."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


def use_precision(precision: str, autotune: bool) -> None:
    """Set whether torch multiplies fp32 in TF32 (19 bits), and whether cuDNN tries its algorithms."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = autotune


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which forward passes run."""
    dtype = _AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def operand_dtype(precision: str) -> torch.dtype:
    """Return the type of a GEMM's operands."""
    return _AUTOCAST.get(precision, torch.float32)
