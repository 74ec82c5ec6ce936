"""Refuses formats and layers for which a library's kernels were not counted."""

from __future__ import annotations

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.programs.huggingface import AUTOCAST, HUGGINGFACE_2021
from clustersim.kernels.programs.nemo import NEMO, NEMO_AUTOCAST
from clustersim.model.layer import Model
from clustersim.model.precision import Precision

_LONG = 4.0
_GPT_2 = "GPT-2"
_PLAIN = "transformer with layer norms, GELU and unfused attention"
_SUPPORTED = {HUGGINGFACE_2021: _GPT_2, AUTOCAST: _GPT_2, NEMO: _PLAIN, NEMO_AUTOCAST: _PLAIN}
_UNSUPPORTED_OPS = ("rms-norm", "rotary", "silu", "convolution")


def refuse_unsupported(model: Model, precision: Precision, library: str) -> None:
    """Raise if a library is requested with formats, or for layers, that were not counted."""
    if library not in _SUPPORTED:
        return
    if library in (AUTOCAST, NEMO_AUTOCAST) and precision.activation_bytes == _LONG:
        plain = library.removesuffix("-autocast")
        raise InputError(
            f"with {precision.name} autocast has nothing to cast; write library: {plain}, or precision: amp-fp16",
            got=f"library: {library}",
            allowed=plain,
            key="compute.library",
        )
    other = next((layer for layer in model.layers if layer.op in _UNSUPPORTED_OPS or is_fused(layer)), None)
    if other is not None:
        raise InputError(
            f"library: {library} supports only a {_SUPPORTED[library]}, and in {model.name} '{other.name}' is "
            f"{'fused attention' if is_fused(other) else other.op}; write library: eager",
            got=library,
            allowed="eager",
            key="compute.library",
        )
