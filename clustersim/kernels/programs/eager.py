"""Operations that PyTorch without a compiler runs as several kernels, each through memory.

The counts are from the source of the kernels that run in sequence: reads and writes of tensors as large as a
layer's input or output; with 16-bit activations some of them are fp32. `torch.compile`, like a hand-written kernel,
fuses them into one pass, which is the default of layer times. Counted:

- RMS norm (`rms_norm` in `aten/src/ATen/native/layer_norm.cpp`, PyTorch 2.4 to 2.8): to fp32, square, mean, times the
  inverse root, back, times the weight; backward each of them.
- rotary positions (`apply_rotary_emb` of Llama and of torchtitan): to fp32, a complex product, back.
- gates (silu(a) b): two kernels forward, three backward.
- residual connections (`add`): backward the gradients of both branches are added, two read and one written
  (`InputBuffer::accumulate` in `torch/csrc/autograd/input_buffer.cpp`); so are those of an input that several GEMMs
  read.
- attention: queries, keys and values are three GEMMs of one input, whose three gradients are added, 6 of its
  elements, or views of one GEMM's output, whose gradients are concatenated, 6 as well.
- layer norm: backward one kernel reads gradient and input for its output, and another reads both again for the
  gradients of weight and bias (`LayerNormBackwardKernelImplInternal` in
  `aten/src/ATen/native/cuda/layer_norm_kernel.cu`, commit bad757be).
- group norm: forward one kernel reads the input for its moments, another for its output; backward one reads
  gradient and input for their sums, another both again (`RowwiseMomentsCUDAKernel`,
  `ComputeInternalGradientsCUDAKernel` and the loops behind them in `aten/src/ATen/native/cuda/group_norm_kernel.cu`,
  commit 0081abf7).
- bias: its gradient is the output's summed over rows, which is read once more; forward the GEMM adds it. The bias of a
  convolution is added by a separate kernel, which reads and writes the output (`output.add_(reshape_bias(...))`
  behind `cudnn_convolution` in `aten/src/ATen/native/Convolution.cpp`).
- the loss over a vocabulary (`cross_entropy` in `aten/src/ATen/native/LossNLL.cpp`, which autocast and training loops
  compute in fp32): logits to fp32, log-softmax; backward zeros, the log-softmax's gradient from that of its output and
  its output, back to 16 bits. Left out: the log-softmax reads a row three times if the row is too large for the cache.
"""

from __future__ import annotations

from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision
from clustersim.model.tensors import weights_and_biases

GATES = ("gelu", "silu")
GROUP_NORM = Traffic(input=2.0, output=1.0), Traffic(input=4.0, output=1.0)
"""A norm of two kernels in each pass."""

LAYER_NORM = Traffic(input=1.0, output=1.0), Traffic(input=4.0, output=1.0)
"""A norm of one kernel forward, and backward of two that each read gradient and input."""


def widths(precision: Precision) -> tuple[float, float]:
    """Return the traffic of a cast to fp32 and the width of an fp32 number, both in elements of an activation."""
    wide = precision.weight_bytes / precision.activation_bytes
    return (1 + wide if wide > 1 else 0.0), wide


def eager_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer moves forward and backward, None where it is one kernel.

    In elements of an activation, with w = 2 where they have 16 bits, so that their fp32 copies count twice, and casts
    of 1 + w each: an RMS norm 5 w + 2 and two casts forward, 17 w + 6 and two casts backward; rotary positions 2 w and
    two casts in each pass; a gate 5 and 9 outputs; a sum 3 outputs in each pass; a loss 2 w and a cast forward, 4 w and
    a cast backward; a layer norm 2 and 5, a group norm 3 and 5, in any format. In fp32 w is 1, and there are no casts.
    """
    cast, wide = widths(precision)
    if layer.op == "rms-norm":
        forward, backward = 2 * cast + 5 * wide + 2, 2 * cast + 17 * wide + 6
        return Traffic(input=forward, output=0.0), Traffic(input=backward, output=0.0)
    if layer.op == "rotary":
        each = Traffic(input=2 * cast + 2 * wide, output=0.0)
        return each, each
    if layer.op == "add":
        return Traffic(input=1.0, output=1.0), Traffic(input=1.0, output=1.0)
    if layer.op == "layer-norm":
        return LAYER_NORM
    if layer.op == "group-norm":
        return GROUP_NORM
    if layer.op == "loss":
        return Traffic(input=cast + 2 * wide, output=0.0), Traffic(input=cast + 4 * wide, output=0.0)
    if layer.op in GATES and layer.input_elements == 2 * layer.output_elements:
        return Traffic(input=0.0, output=5.0), Traffic(input=0.0, output=9.0)
    return None


def eager_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes that PyTorch moves in addition to a layer's GEMMs: biases, and sums of an input's gradients.

    `count` matrices that read one input produce as many gradients of it, if it needs one, added two at a time: 3 (count
    - 1) inputs. A bias's gradient reads the output's once, and a convolution's bias moves 2 outputs forward. The
    gradients of queries, keys and values move 6 elements per element of the queries, half of it at each of an
    attention's two GEMMs.
    """
    size = precision.activation_bytes
    if layer.op == "convolution" and layer.shape:
        output = size * layer.output_elements if weights_and_biases(layer)[1] else 0.0
        return ExtraBytes(forward=2.0 * output, backward_weights=output)
    if "count" not in layer.shape:
        return ExtraBytes()
    count = layer.shape["count"]
    if layer.op == "matmul":
        return ExtraBytes(backward_data=size * 3.0 * count * layer.shape["inputs"] * layer.shape["outputs"])
    if layer.op != "fully-connected":
        return ExtraBytes()
    has_bias = layer.num_parameters > layer.shape["inputs"] * layer.shape["outputs"] * count
    return ExtraBytes(
        backward_data=size * 3.0 * (count - 1) * layer.input_elements if layer.flop_backward_data else 0.0,
        backward_weights=size * layer.output_elements if has_bias else 0.0,
    )
