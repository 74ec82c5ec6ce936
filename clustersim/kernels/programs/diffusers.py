"""Traffic around the GEMMs of a U-Net of Hugging Face's diffusers of early 2023: 0.12, attention by xFormers.

As `eager`, except for

- heads: queries, keys and values are copied before attention, each head's rows contiguous
  (`head_to_batch_dim(...).contiguous()`), and so is its output, behind it (`XFormersCrossAttnProcessor` in
  `src/diffusers/models/cross_attention.py`); backward the gradients of all four, in reverse. The gradients of
  queries, keys and values are then those of matrices that read one input, or two.
- GEGLU: gates are halves of one GEMM's output (`hidden_states.chunk(2, dim=-1)` in `models/attention.py`), whose
  gradients are concatenated, 4 more.

Under autocast, or where FSDP has weights in 16 bits, all of it is in 16 bits, group and layer norms too with Composer's
`low_precision_groupnorm` and `low_precision_layernorm`.
"""

from __future__ import annotations

from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.eager import GATES, eager_extra_bytes, eager_traffic
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

DIFFUSERS = "diffusers-2023"


def diffusers_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer without GEMMs moves forward and backward: a gate 5 and 13 outputs."""
    if layer.op in GATES and layer.input_elements == 2 * layer.output_elements:
        return Traffic(input=0.0, output=5.0), Traffic(input=0.0, output=13.0)
    return eager_traffic(layer, precision)


def diffusers_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes moved in addition to GEMMs: in each pass 2 of the input and output of either half of a fused
    attention.

    The first half reads queries and keys, the second reads values and writes the attention output.
    """
    if layer.op != "matmul" or not is_fused(layer):
        return eager_extra_bytes(layer, precision)
    copied = 2.0 * precision.activation_bytes * (layer.input_elements + layer.output_elements)
    return ExtraBytes(forward=copied, backward_data=copied)
