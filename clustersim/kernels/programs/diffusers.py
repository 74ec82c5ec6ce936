"""What a U-Net of Hugging Face's diffusers of early 2023 has around its products: 0.12, attention by xFormers.

As `eager`, but for

- heads: queries, keys and values are copied before attention, each head's rows one after the other
  (`head_to_batch_dim(...).contiguous()`), and so is what it writes, behind it (`XFormersCrossAttnProcessor` in
  `src/diffusers/models/cross_attention.py`); backward the gradients of all four, the other way round. The gradients of
  queries, keys and values are then those of matrices that read one input, or two.
- GEGLU: gates are halves of one product's output (`hidden_states.chunk(2, dim=-1)` in `models/attention.py`), whose
  gradients are put together, 4 more.

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
    """Return the elements that a layer without products moves forward and backward: a gate 5 and 13 outputs."""
    if layer.op in GATES and layer.input_elements == 2 * layer.output_elements:
        return Traffic(input=0.0, output=5.0), Traffic(input=0.0, output=13.0)
    return eager_traffic(layer, precision)


def diffusers_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes moved beside products: each way 2 of what either half of a fused attention reads and writes.

    The first half reads queries and keys, the second reads values and writes what is mixed.
    """
    if layer.op != "matmul" or not is_fused(layer):
        return eager_extra_bytes(layer, precision)
    copied = 2.0 * precision.activation_bytes * (layer.input_elements + layer.output_elements)
    return ExtraBytes(forward=copied, backward_data=copied)
