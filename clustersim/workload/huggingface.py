"""What Hugging Face's GPT-2 of early 2021 moves through memory: transformers 4.3 on PyTorch 1.8, in fp32.

Each operation of `models/gpt2/modeling_gpt2.py` (transformers 4.3.0) is a kernel of its own, and so is each step of its
derivative (PyTorch's `tools/autograd/derivatives.yaml` and `FunctionsManual.cpp`). Counted, in reads and writes of
whole tensors:

- scores: divided by the root of the width, 2; where the causal mask does not let them through a constant
  (`torch.where`), 2; the mask of padding added, which run_clm.py gives, 2; softmax, whose rows of up to 1,024 numbers
  stay on the chip, 2. Backward the softmax's gradient times its output, 3, and its kernel, 3 (`softmax_backward_cuda`
  in `aten/src/ATen/native/cuda/SoftMax.cu`); zeros for what was masked, 1, and a choice of both, 3; the division, 2.
- heads: queries, keys, values and what is mixed copied, as `matmul` and `merge_heads` want them in a row, 8 of the
  queries. Backward the last of them, 2, queries and values back into rows of features, 4 (of keys a view does), and all
  three put together, as they are slices of one product's output (`split_backward`), 6.
- dropout: one kernel each way, and a mask of one byte a number (`fused_dropout_kernel` in `cuda/Dropout.cu`).
- `gelu_new`, 0.5 x (1 + tanh(c (x + 0.044715 x^3))): a cube, three products with a constant, tanh and a sum with a
  constant, 2 each, and x added and multiplied with, 3 each: 18. Backward the last product, 6, tanh, 3, the three
  constants, 2 each, the cube (a square, times 3, times the gradient), 7, and three gradients of x added up, 6: 28.
- `Conv1D`: the bias is written before the product, which reads it (`addmm`), 2 outputs, and its gradient summed, 1.
- layer norms, residual connections: as `encoder_kernels` counts them for PyTorch 1.4 to 1.8.
- the loss: the scores of all tokens but the last copied, 2, and a log-softmax, whose rows are read three times, 4: a
  multiprocessor has one row at a time, and 72 rows of 50,257 words are 14 MB, where a TITAN RTX's second-level cache
  has 6. Backward zeros for the loss's gradient, 1, the log-softmax, which reads it twice, 4, and zeros as large as all
  scores and a copy (`slice_backward`), 3.

Left out: gradients of the embedding's two uses, which are added up, and lookups.
"""

from __future__ import annotations

from clustersim.errors import InputError
from clustersim.workload.encoder_kernels import Around, around_products, encoder_traffic
from clustersim.workload.fused_attention import is_fused
from clustersim.workload.kernel_constants import Traffic
from clustersim.workload.layer import Layer, Model
from clustersim.workload.precision import Precision

HUGGINGFACE_2021 = "huggingface-2021"
_BASE = "eager-2020"
_LONG = 4.0
_MASK = 0.25
"""A dropout's mask of one byte, of a number's four."""
_COPIES = 4.0, 6.0
"""Copies of heads beside each of an attention's two products, of queries: half of 8 forward and of 12 backward."""

_NOT_GPT2 = ("rms-norm", "rotary", "convolution")

_TRAFFIC = {
    "softmax": (Traffic(input=4.0, output=4.0), Traffic(input=7.0, output=5.0)),
    "dropout": (Traffic(input=1.0, output=1.0 + _MASK), Traffic(input=1.0, output=1.0 + _MASK)),
    "gelu": (Traffic(input=9.0, output=9.0), Traffic(input=14.0, output=14.0)),
    "loss": (Traffic(input=6.0, output=0.0), Traffic(input=8.0, output=0.0)),
}


def huggingface_traffic(layer: Layer, _: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer without products moves forward and backward, None where it is one pass.

    Scores 8 and 12, a dropout 2.25 each way, a GELU 18 and 28, the loss 6 and 8; a layer norm 3 and 7, a sum 3 outputs
    each way.
    """
    return _TRAFFIC.get(layer.op) or encoder_traffic(layer, _BASE)


def huggingface_around(layer: Layer, number: Precision) -> Around:
    """Return the bytes moved beside products: copies of heads, 8 and 12 of the queries, and biases, 2 and 1 outputs."""
    if layer.op != "matmul" or "count" not in layer.shape:
        return around_products(layer, number, _BASE)
    queries = number.activation_bytes * layer.shape["inputs"] * layer.shape["outputs"] * layer.shape["count"]
    return Around(forward=_COPIES[0] * queries, backward_data=_COPIES[1] * queries)


def refuse_uncounted(model: Model, number: Precision, library: str) -> None:
    """Raise where Hugging Face's kernels of 2021 are asked for in 16 bits, or for layers, that were not counted."""
    if library != HUGGINGFACE_2021:
        return
    if number.activation_bytes < _LONG:
        raise InputError(
            f"kernels of Hugging Face's GPT-2 (library: {library}) are counted in 32 bits alone; write precision: fp32 "
            "or tf32, or library: eager",
            got=f"precision: {number.name}",
            allowed="fp32, tf32",
        )
    other = next((layer for layer in model.layers if layer.op in _NOT_GPT2 or is_fused(layer)), None)
    if other is not None:
        raise InputError(
            f"{model.name} is no GPT-2, whose kernels alone library: {library} counts: '{other.name}' is "
            f"{'fused attention' if is_fused(other) else other.op}; write library: eager",
            got=library,
            allowed="eager",
        )
