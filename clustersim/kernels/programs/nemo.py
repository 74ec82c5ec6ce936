"""Memory traffic of NeMo's transformers of 2023: with the model cast as a whole, or in fp32 under autocast.

NeMo has Megatron-LM's layers in its own files (NVIDIA/NeMo, nemo/collections/nlp/modules/common/megatron:
attention.py, commit 004616e9, mlp.py, 049d20f5, fused_bias_dropout_add.py, 0a316fa9, fused_layer_norm.py, 13ba900c;
nemo/collections/vision/modules/vit/vit_backbone.py, 0550036a), and GEMMs of Megatron-LM's core
(tensor_parallel/layers.py). Counted as in `programs.eager`, in elements of an activation, with w = 2 where
they have 16 bits; operations that are not listed are as there, or one pass, and norms are Apex's, 2 and 5.

`nemo-2023` is a model cast as a whole (`megatron_amp_O2`), with separate bias and GELU (`bias_activation_fusion:
False`), as in the configurations of images and CLIP:

- the bias of queries, keys and values is added by a kernel behind their GEMM, 2 of each, and each is copied from
  that, 2 (`contiguous_split_chunks`); the attention output is copied, 2. Backward gradients of queries and of keys are
  multiplied by the scale, 2 each (`alpha` of `baddbmm`), and all three concatenated, 2 of each.
- scores with a mask use Apex's kernel in one pass. Without one they do not (`is_kernel_available` in
  apex/transformer/functional/fused_softmax.py, commit 10f061cd), and `VitBackbone` gives none: cast to fp32, 1 + w,
  multiplied by the layer's number, 2 w, a softmax, 2 w, cast back, 1 + w (`forward_torch_softmax`, with
  `apply_query_key_layer_scaling`); backward cast, the softmax's gradient, 3 w, times the number, 2 w, and cast.
- GELU: the bias added, 2, and 2; backward 3.
- a dropout is fused with the sum behind it (`bias_dropout_add_fused_train`). It adds a mask of one byte per element
  forward, and 2 and the mask backward. With dropout probability 0 sums are as in
  `clustersim.kernels.programs.residual_dropout`.

`nemo-2023-autocast` has fp32 weights under `torch.autocast` (`megatron_amp_O2: False`). GEMMs read and write 16
bits; the result of adding an fp32 bias is fp32; Apex's norms and the residual sum cast their inputs
(`_cast_if_autocast_enabled`), so that they, and the stream between blocks, have 16 bits. Differences to the above:

- the bias of queries, keys and values moves 1 + w of each, their copies 2 w, and all are cast for attention's GEMMs,
  1 + w; the empty tensor to which scores are added (`matmul_input_buffer`) is cast with them, 1 + w of the scores.
  Backward gradients are cast to fp32, 1 + w, concatenated, 2 w, and cast for two GEMMs, 1 + w each, and the bias's
  gradient reads w.
- the bias of attention's output is as large as the stream (`expand_as`) when it is cast: written and read, 2; backward
  its gradient is cast, 1 + w, and summed, w.
- GELU: the bias added, 1 + w, GELU, 2 w, cast for the next GEMM, 1 + w; backward cast to fp32, 1 + w, GELU, 3 w,
  cast for the GEMM before, 1 + w, the bias's gradient, w, and the next GEMM's input is cast once more, 1 + w.
- weights are cast for each GEMM forward and again backward, and their gradients to fp32, 6 bytes each: autocast does
  not cache casts of views, nor beyond a GEMM's backward pass.

PyTorch 2.13 has these reads and writes on a CPU when that code runs, operation by operation. In fp32 nothing is cast.
Left out: casts of the inputs of embeddings and of the last GEMMs.
"""

from __future__ import annotations

from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.eager import LAYER_NORM, eager_traffic, widths
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

NEMO, NEMO_AUTOCAST = "nemo-2023", "nemo-2023-autocast"
UNMASKED = "unmasked"
"""Key in the shape of a softmax whose scores have no mask."""

_CAST_AS_A_WHOLE = 0.0, 1.0
_QUERIES_KEYS_VALUES = 3.0


def nemo_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer without GEMMs moves forward and backward, None where it is one pass.

    Scores without a mask 14 and 16, a GELU 4 and 3, a dropout its mask and 2 more.
    """
    return _traffic(layer, precision, *_CAST_AS_A_WHOLE)


def nemo_autocast_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the same under autocast: scores 17 and 16, with a mask 5 and 3, a GELU 10 and 16."""
    return _traffic(layer, precision, *widths(precision))


def nemo_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes moved besides GEMMs: 14 and 10 of an attention's queries, 1 output for a bias's gradient."""
    return _extra_bytes(layer, precision, *_CAST_AS_A_WHOLE)


def nemo_autocast_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the same under autocast: 34 and 50 of the queries; 6 and 12 bytes of a weight."""
    return _extra_bytes(layer, precision, *widths(precision))


def _traffic(layer: Layer, precision: Precision, cast: float, wide: float) -> tuple[Traffic, Traffic] | None:
    """Return the traffic of a layer, with autocast's casts moving `cast` and its fp32 numbers `wide` elements."""
    if layer.op == "softmax":
        forward, backward = _scores(layer, precision)
        return _of_outputs(forward + cast, backward)
    if layer.op == "gelu":
        return _of_outputs(1 + 3 * wide + cast, 4 * wide - 1 + 3 * cast)
    if layer.op == "dropout":
        mask = 1.0 / precision.activation_bytes
        return _of_outputs(mask, 2 + mask)
    return LAYER_NORM if layer.op == "layer-norm" else eager_traffic(layer, precision)


def _scores(layer: Layer, precision: Precision) -> tuple[float, float]:
    """Return the traffic of a softmax of scores forward and backward, in fp32 where there is no mask."""
    if UNMASKED not in layer.shape:
        return 2.0, 3.0
    cast, wide = widths(precision)
    return 2 * cast + 4 * wide, 2 * cast + 5 * wide


def _extra_bytes(layer: Layer, precision: Precision, cast: float, wide: float) -> ExtraBytes:
    """Return the bytes moved in addition to a GEMM; each of an attention's two GEMMs has half."""
    if "count" not in layer.shape:
        return ExtraBytes()
    inputs, outputs, count = (layer.shape[key] for key in ("inputs", "outputs", "count"))
    if layer.op == "matmul":
        half = precision.activation_bytes * inputs * outputs * count / 2
        all_three = _QUERIES_KEYS_VALUES
        expanded, expanded_back = (2.0, cast + wide - 1) if cast else (0.0, 0.0)
        forward = all_three * (1 + wide + 2 * wide + cast) + 2 + expanded
        backward = 4 + all_three * (3 * cast + 2 * wide + wide - 1) + expanded_back
        return ExtraBytes(forward=half * forward, backward_data=half * backward)
    if layer.op != "fully-connected":
        return ExtraBytes()
    has_bias = layer.num_parameters > inputs * outputs * count
    weights = (precision.operand_bytes + precision.weight_bytes) * layer.num_parameters if cast else 0.0
    return ExtraBytes(
        backward_weights=precision.activation_bytes * layer.output_elements if has_bias else 0.0,
        weights_forward=weights,
        weights_backward=2 * weights,
    )


def _of_outputs(forward: float, backward: float) -> tuple[Traffic, Traffic]:
    return Traffic(input=0.0, output=forward), Traffic(input=0.0, output=backward)
