"""Memory traffic of Hugging Face's GPT-2 of 2021: transformers 4.3 to 4.12 on PyTorch 1.8 to 1.10.

Each operation of `models/gpt2/modeling_gpt2.py` (transformers 4.3.0) is a separate kernel, and so is each step of its
derivative (PyTorch's `tools/autograd/derivatives.yaml` and `FunctionsManual.cpp`). Counted, in reads and writes of
whole tensors:

- scores: divided by the root of the width, 2; a constant where the causal mask excludes them
  (`torch.where`), 2; the padding mask added, which run_clm.py gives, 2; softmax, whose rows of up to 1,024 numbers
  stay on the chip, 2. Backward the softmax's gradient times its output, 3, and its kernel, 3 (`softmax_backward_cuda`
  in `aten/src/ATen/native/cuda/SoftMax.cu`); zeros for masked scores, 1, and a selection from both, 3; the division, 2.
- heads: queries, keys, values and the attention output copied, since `matmul` and `merge_heads` need them contiguous, 8
  of the queries. Backward the last of them, 2, queries and values back into rows of features, 4 (keys are a view), and
  all three concatenated, since they are slices of one GEMM's output (`split_backward`), 6.
- dropout: one kernel in each pass, and a mask of one byte per element (`fused_dropout_kernel` in `cuda/Dropout.cu`).
- `gelu_new`, 0.5 x (1 + tanh(c (x + 0.044715 x^3))): a cube, three products with a constant, tanh and a sum with a
  constant, 2 each, and an addition of and a multiplication by x, 3 each: 18. Backward the last product, 6, tanh, 3, the
  three constants, 2 each, the cube (a square, times 3, times the gradient), 7, and three gradients of x added, 6: 28.
- `Conv1D`: the bias is written before the GEMM, which reads it (`addmm`), 2 outputs, and its gradient summed, 1.
- layer norms, residual connections: as `encoder_kernels` counts them for PyTorch 1.4 to 1.8.
- the loss: the scores of all tokens but the last copied, 2, and a log-softmax, whose rows are read three times, 4: a
  multiprocessor processes one row at a time, and 72 rows of 50,257 words are 14 MB, where a TITAN RTX's L2 cache
  has 6. Backward zeros for the loss's gradient, 1, the log-softmax, which reads it twice, 4, and zeros as large as all
  scores and a copy (`slice_backward`), 3.

In 16 bits (`huggingface-2021`, a model after `model.half()`, which is DeepSpeed's `fp16`) the same operations
run on 16-bit numbers: transformers 4.12 casts scores to the format of the values, which they already have. The time of
an element is proportional to its bytes, except in layer norms, which had no vectorized loads until the end of 2021
(pytorch/pytorch, pull request 67977), and a dropout's mask still has one byte per element.

`huggingface-2021-autocast` is the same code with fp32 weights under `torch.cuda.amp.autocast`, which computes `pow`,
softmax, layer norm and the loss in fp32 (PyTorch, *Automatic Mixed Precision package*, "CUDA Ops that can autocast to
float32"). An operation on two formats returns the wider one. Counted in 16-bit elements, an fp32 number as two, a cast
as 3:

- scores: divided, 2, masked, 2; the fp32 padding mask added, 1 + 2; softmax, 4, and cast to the values' format, 3.
  Backward cast, 3, times the output, 6, its kernel, 6, cast, 3, zeros, 1, selection, 3, division, 2.
- `gelu_new`: cast for the cube, 3, cube 4, constant 4, x added 1 + 4, constant 4, tanh 4, 1 added 4, half of x, 2,
  their product, 1 + 4, and a cast for the next GEMM, 3. Backward cast, 3, the product's two gradients, 6 and 5, one
  cast, 3, tanh 6, constants 2, 4 and 4, the cube's (square 4, times three 4, times the gradient 6), its cast and that
  of x, 3 each, and three gradients of x added, 6.
- residual connection, 16 bits added to fp32: 1 + 4, backward a cast, 3, and the sum of both branches, 6; layer norm:
  fp32, 6, and a cast for the GEMM behind it, 3, backward 14 and 3.
- the loss: scores copied, 2, cast, 3, log-softmax 8; backward zeros 2, log-softmax 8, cast 3, slice 3.
- weights cast before GEMMs and gradients after, 6 bytes a parameter each.

Left out: the sum of the gradients of the embedding's two uses, and lookups.
"""

from __future__ import annotations

from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.encoder_kernels import SCALAR_ACCESS_BYTES, ExtraBytes, encoder_traffic
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

HUGGINGFACE_2021 = "huggingface-2021"
AUTOCAST = "huggingface-2021-autocast"
_BASE = "eager-2020"
_COPIES = 4.0, 6.0
"""Copies of heads at each of an attention's two GEMMs, of queries: half of 8 forward and of 12 backward."""

_TRAFFIC = {
    "softmax": (Traffic(input=4.0, output=4.0), Traffic(input=7.0, output=5.0)),
    "gelu": (Traffic(input=9.0, output=9.0), Traffic(input=14.0, output=14.0)),
    "loss": (Traffic(input=6.0, output=0.0), Traffic(input=8.0, output=0.0)),
}
_WITH_CASTS = {
    "softmax": (Traffic(input=7.0, output=7.0), Traffic(input=13.0, output=11.0)),
    "gelu": (Traffic(input=19.0, output=19.0), Traffic(input=29.5, output=29.5)),
    "loss": (Traffic(input=13.0, output=0.0), Traffic(input=16.0, output=0.0)),
    "add": (Traffic(input=1.5, output=2.0), Traffic(input=1.5, output=6.0)),
    "layer-norm": (Traffic(input=5.0, output=4.0), Traffic(input=14.0, output=3.0)),
}


def huggingface_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer without GEMMs moves forward and backward, None where it is one pass.

    Scores 8 and 12, a dropout 2 and its mask in each pass, a GELU 18 and 28, the loss 6 and 8; a layer norm 3 and 7,
    with elements that take the time of 4 bytes, a sum 3 outputs in each pass.
    """
    if layer.op == "dropout":
        both = Traffic(input=1.0, output=1.0 + 1.0 / precision.activation_bytes)
        return both, both
    found = _TRAFFIC.get(layer.op) or encoder_traffic(layer, _BASE)
    if layer.op != "layer-norm" or found is None:
        return found
    longer = SCALAR_ACCESS_BYTES / precision.activation_bytes
    forward, backward = (Traffic(input=longer * each.input, output=longer * each.output) for each in found)
    return forward, backward


def autocast_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the same under autocast: scores 14 and 24, a GELU 38 and 59, the loss 13 and 16, a sum 5 and 9."""
    return _WITH_CASTS.get(layer.op) or huggingface_traffic(layer, precision)


def huggingface_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes moved in addition to GEMMs: copies of heads, 8 and 12 of the queries, and biases, 2 and 1
    outputs.
    """
    if "count" not in layer.shape:
        return ExtraBytes()
    inputs, outputs, count = (layer.shape[key] for key in ("inputs", "outputs", "count"))
    if layer.op == "matmul":
        queries = precision.activation_bytes * inputs * outputs * count
        return ExtraBytes(forward=_COPIES[0] * queries, backward_data=_COPIES[1] * queries)
    if layer.op != "fully-connected":
        return ExtraBytes()
    has_bias = layer.num_parameters > inputs * outputs * count
    output = precision.activation_bytes * layer.output_elements if has_bias else 0.0
    summed = 3.0 * (count - 1) * precision.activation_bytes * layer.input_elements
    return ExtraBytes(forward=2.0 * output, backward_data=summed, backward_weights=output)


def autocast_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the same, and the casts of weights and of their gradients."""
    extra = huggingface_extra_bytes(layer, precision)
    if layer.op != "fully-connected" or "count" not in layer.shape:
        return extra
    cast = (precision.operand_bytes + precision.weight_bytes) * layer.num_parameters
    return extra._replace(weights_forward=cast, weights_backward=cast)
