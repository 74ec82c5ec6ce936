"""Formats and layers whose kernels a library counts in one model alone, and so refuses in others."""

from __future__ import annotations

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.programs.huggingface import AUTOCAST, HUGGINGFACE_2021
from clustersim.kernels.programs.nemo import NEMO, NEMO_AUTOCAST
from clustersim.model.layer import Model
from clustersim.model.precision import Precision

_LONG = 4.0
_GPT_2 = "GPT-2"
_PLAIN = "transformer of layer norms and GELU whose attention is by products"
_ONLY = {HUGGINGFACE_2021: _GPT_2, AUTOCAST: _GPT_2, NEMO: _PLAIN, NEMO_AUTOCAST: _PLAIN}
_NOT_IN_THEM = ("rms-norm", "rotary", "silu", "convolution")


def refuse_unsupported(model: Model, precision: Precision, library: str) -> None:
    """Raise where a library is asked for in formats, or for layers, that were not counted."""
    if library not in _ONLY:
        return
    if library in (AUTOCAST, NEMO_AUTOCAST) and precision.activation_bytes == _LONG:
        plain = library.removesuffix("-autocast")
        raise InputError(
            f"in {precision.name} autocast has nothing to cast; write library: {plain}, or precision: amp-fp16",
            got=f"library: {library}",
            allowed=plain,
        )
    other = next((layer for layer in model.layers if layer.op in _NOT_IN_THEM or is_fused(layer)), None)
    if other is not None:
        raise InputError(
            f"{model.name} is no {_ONLY[library]}, whose kernels alone library: {library} counts: '{other.name}' is "
            f"{'fused attention' if is_fused(other) else other.op}; write library: eager",
            got=library,
            allowed="eager",
        )
