"""Kernels of frameworks of 2018 to 2021 around the GEMMs of an encoder, in addition to one pass of each layer.

BERT's layers were written as single operations: heads are rearranged into rows and back by copies, scores are scaled
and masked, a bias is added and its gradient summed, and where several layers read a tensor their gradients are added.
`eager-2020` is PyTorch 1.4 to 1.8 without a compiler, `xla` a program compiled by XLA, which fuses element-wise
operations up to the next GEMM or reduction. Counted, in reads and writes of whole tensors, from BERT's source
(google-research/bert, modeling.py, commit 0017e7ec; NVIDIA, DeepLearningExamples, PyTorch/LanguageModeling/BERT,
modeling.py, commit 1d4211fe), whose operations are:

- heads: queries, keys and values permuted before, the attention output permuted after the GEMM, each a copy, and the
  gradients of all four in the backward pass;
- scores: divided by the root of the width, the mask added, a softmax, each a kernel in `eager-2020`; with `xla` a
  maximum, a sum and the output kernel read them once each;
- layer norm: the input read for its moments and again (with `xla` for mean and for variance); backward both input and
  gradient for a row's sums, for the parameters', and for the output;
- bias: with `xla` added by the next kernel that reads the GEMM's output; in `eager-2020` written before the GEMM,
  which adds to it. Its gradient reads the output's in both;
- a residual connection: backward the gradients of both branches are added, and so are those of query, key and value
  where each has a separate GEMM;
- 16-bit operands of fp32 weights: weights cast before, gradients after each GEMM. With `xla`, where gradients are
  exchanged in the 16 bits that GEMMs wrote, the update reads them next, and their cast is part of it: XLA treats a cast
  as cheap (`InstructionFusion::IsExpensive` in xla/service/instruction_fusion.cc, openxla/xla), and fuses it with its
  reader. An exchange in fp32, and sums of micro-batches, need them written (`casts_gradients`).

Kernels of those years read and wrote one element at a time, and so took as long for 16 bits as for 32: MXNet's layer
norm of 16,384 x 1,024 elements took 215 us forward and 466 backward in fp32, 225 and 398 in fp16 (apache/mxnet, pull
request 14935, 2019). PyTorch's element-wise loop has vectorized loads since 2020 (pytorch/pytorch, issue 31975 and
pull request 32383), its layer norm since 2021 (67977: 180 us before and 49 after on Volta, 6,272 x 1,024), TensorFlow's
softmax since 2020 (tensorflow/tensorflow, 38094). cuDNN's operations (batch norm, pooling) are not among them. XLA's
kernels are assumed to be similar.
"""

from __future__ import annotations

from typing import NamedTuple

from clustersim.kernels.kernel_constants import Traffic
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

ENCODER_LIBRARIES = ("eager-2020", "xla")
SCALAR_ACCESS_BYTES = 4.0
"""Bytes whose transfer time one element takes in a kernel without vectorized loads, in any precision."""
_BY_CUDNN = ("batch-norm", "lrn", "pooling")


class ExtraBytes(NamedTuple):
    """Bytes that kernels around a layer's GEMMs move: per sample, and for the weights, independent of the batch."""

    forward: float = 0.0
    backward_data: float = 0.0
    backward_weights: float = 0.0
    weights_forward: float = 0.0
    weights_backward: float = 0.0


def encoder_traffic(layer: Layer, library: str) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer without GEMMs moves forward and backward, None where it is one pass.

    A layer norm reads 2 and writes 1 (`xla`: 3 and 1), backward 6 and 1; a softmax with scale and mask moves 6 forward
    and 5 backward (`xla`: 4 and 5); a sum 3 in both passes, of its output's elements.
    """
    is_xla = library == "xla"
    if layer.op == "layer-norm":
        return Traffic(input=3.0 if is_xla else 2.0, output=1.0), Traffic(input=6.0, output=1.0)
    if layer.op == "softmax":
        return Traffic(input=3.0, output=1.0 if is_xla else 3.0), Traffic(input=4.0, output=1.0)
    if layer.op == "add":
        return Traffic(input=1.0, output=1.0), Traffic(input=1.0, output=1.0)
    return None


def access_bytes(layer: Layer, precision: Precision) -> float:
    """Return the bytes whose time one element takes without GEMMs: `SCALAR_ACCESS_BYTES` except for cuDNN's."""
    return precision.activation_bytes if layer.op in _BY_CUDNN else SCALAR_ACCESS_BYTES


def casts_gradients(library: str, precision: Precision, gradient_bytes: float, num_passes: int) -> bool:
    """Say whether gradients of 16-bit operands are written in fp32 by a separate kernel, after each GEMM."""
    return library != "xla" or gradient_bytes != precision.operand_bytes or num_passes > 1


def encoder_extra_bytes(layer: Layer, precision: Precision, library: str, casts_back: bool = True) -> ExtraBytes:
    """Return the bytes that the kernels around a layer's GEMMs move, by the list at the top of this file.

    For a matmul of two activations, `count` GEMMs of `rows x inputs` by `inputs x outputs`, two tensors as large as the
    right one are copied in each pass: 4 of its elements. A matrix with biases moves 2 outputs forward (`xla`: none) and
    1 backward. `count` matrices that read one input produce as many gradients of it, added two at a time (`xla`: all at
    once). A parameter cast from 4 to 2 bytes moves 6 bytes in each pass, or only forward (without `casts_back`). Other
    elements count as `SCALAR_ACCESS_BYTES`.
    """
    if not layer.shape or "count" not in layer.shape:
        return ExtraBytes()
    size, count = SCALAR_ACCESS_BYTES, layer.shape["count"]
    if layer.op == "matmul":
        copied = 4.0 * size * layer.shape["inputs"] * layer.shape["outputs"] * count
        return ExtraBytes(forward=copied, backward_data=copied)
    if layer.op != "fully-connected":
        return ExtraBytes()
    is_xla = library == "xla"
    has_bias = layer.num_parameters > layer.shape["inputs"] * layer.shape["outputs"] * count
    output = size * layer.output_elements if has_bias else 0.0
    summed = (count + 1 if is_xla else 3 * (count - 1)) if count > 1 else 0
    is_cast = precision.operand_bytes < precision.weight_bytes
    cast = (precision.operand_bytes + precision.weight_bytes) * layer.num_parameters if is_cast else 0.0
    return ExtraBytes(
        forward=0.0 if is_xla else 2.0 * output,
        backward_data=size * layer.input_elements * summed,
        backward_weights=output,
        weights_forward=cast,
        weights_backward=cast if casts_back else 0.0,
    )
