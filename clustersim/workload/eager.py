"""Operations that PyTorch without a compiler does in several kernels, each through memory.

Numbers are counted in the source of the kernels that run one after the other, reads and writes of tensors as large as a
layer's input or output; with 16-bit activations some of them are fp32. `torch.compile`, like a hand-written kernel,
makes one pass of them, which is what layer times have otherwise. Counted:

- RMS norm (`rms_norm` in `aten/src/ATen/native/layer_norm.cpp`, PyTorch 2.4 to 2.8): to fp32, square, mean, times the
  inverse root, back, times the weight; backward each of them.
- rotary positions (`apply_rotary_emb` of Llama and of torchtitan): to fp32, a complex product, back.
- gates (silu(a) b): two kernels forward, three backward.
"""

from __future__ import annotations

from clustersim.workload.kernel_constants import Traffic
from clustersim.workload.layer import Layer
from clustersim.workload.precision import Precision

_GATES = ("gelu", "silu")


def eager_traffic(layer: Layer, number: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer moves forward and backward, None where it is one kernel.

    In elements of an activation, with w = 2 where they have 16 bits, whose fp32 copies count twice, and casts of 1 + w
    each: an RMS norm 5 w + 2 and two casts forward, 17 w + 6 and two casts backward; rotary positions 2 w and two casts
    each way; a gate 5 and 9 outputs. In fp32 w is 1, and there is nothing to cast.
    """
    casts = number.activation_bytes < number.weight_bytes
    wide = number.weight_bytes / number.activation_bytes
    cast = (1 + wide) if casts else 0.0
    if layer.op == "rms-norm":
        forward, backward = 2 * cast + 5 * wide + 2, 2 * cast + 17 * wide + 6
        return Traffic(input=forward, output=0.0), Traffic(input=backward, output=0.0)
    if layer.op == "rotary":
        each = Traffic(input=2 * cast + 2 * wide, output=0.0)
        return each, each
    if layer.op in _GATES and layer.input_elements == 2 * layer.output_elements:
        return Traffic(input=0.0, output=5.0), Traffic(input=0.0, output=9.0)
    return None
