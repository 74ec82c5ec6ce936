"""Operations of a Llama or GPT in the programs that train them: some in fused kernels, some in PyTorch's.

Counted as in `eager`, in elements of an activation, with w = 2 where they have 16 bits and casts of 1 + w; operations
that are not listed are one pass.

`megatron` is Megatron-LM with TransformerEngine, whose loss has several kernels (`cross_entropy.py` of
`megatron/core/tensor_parallel`, without its fusion).

`megatron-2023` is Megatron-LM's own transformer before it fused rotary positions and gates
(`megatron/model/transformer.py` of FlagOpen/FlagScale, commit 2387bf46):

- rotary positions of queries and keys (`apply_rotary_pos_emb` in `rotary_pos_embedding.py`, microsoft's commit
  1bcd14d6): times the cosine, 2, halves exchanged, a negation, 1, and a copy, 2, times the sine, 2, and the sum, 3;
  backward the two products, 4, a negation, 1, halves concatenated, 2, and the sum of both paths, 3.
- queries, keys and values are views of one GEMM's output, of which values are copied, and whose gradients are
  concatenated backward, 2 each. Where several queries share keys and values, these are first written once for each
  query, and backward added. All of it is counted with rotary positions, whose output includes the values.
- a gate's halves are such views too (`torch.chunk`): 5 and 9 of its output as in `eager`, and 4 to concatenate the
  gradients of both.
- norms are Apex's: one kernel forward, backward one for the weight and one for the output, which read gradient and
  input each (`csrc/layer_norm_cuda_kernel.cu` in NVIDIA/apex, commit 4b0ee252).
- a fused attention needs each sequence contiguous in memory, but the token dimension comes first here. Of several
  sequences queries, keys and the attention output are copied, 6, and backward the gradient of the
  output, 2 (`rearrange(...).contiguous()` in `ParallelAttention`; the gradients of queries and keys are read in place).
  Of one sequence these are views.
- residual connections and biases as in `eager`, the loss as in `megatron`. Sums include a dropout, even with
  probability 0, in a model without dropout layers (`clustersim.kernels.programs.residual_dropout`).

`megatron-deepspeed` is the same in Megatron-DeepSpeed until July 2024 (microsoft/Megatron-DeepSpeed, commit
1e3fc81d; pull request 409 made views of slices):

- queries, keys and values are slices of one GEMM's output (`split_tensor`). The gradient of each is written into
  zeros as large as that output, 1 of it and 2 of the slice, and the three are added, 6 of it: 11 in place of 2.
- rotary positions end with a copy that concatenates the rotated part with an empty tensor, 2 more. Backward the
  gradient of the empty part is a tensor of zeros, 1, which is added, 3 (`rotary_pos_embedding.py`, commit 9de30d88).

`internlm` is InternLM's (`modeling_internlm.py`, `linear.py` and `embedding.py` of `internlm/model`, commits 02964250,
0c673cc2 and 0417faba): rotary positions are computed in place by one kernel; norms, Apex's, read fp32 and in the
backward pass write fp32, to which their input is cast and from which its gradient is; gates and residual connections
are PyTorch's, and two GEMMs read the input of a feed-forward layer. The gradients of queries, keys and values are
contiguous as attention writes them, and the loss is one kernel, flash-attn's.

`fms` is IBM's foundation-model-stack before it merged GEMMs (`fms/modules/positions.py`, `attention.py`,
`feedforward.py` and `layernorm.py` of ibm-fms 0.0.3, January 2024), as `eager` except for

- rotary positions: to fp32, times two rows of two numbers each, which writes twice as many, 3 w, their sums, 3 w, and
  back; backward as much, and 2 to rearrange heads into rows. Where several queries share keys and values, these are
  first written once for each query, and backward added.
- the loss, whose scores are bfloat16 as FSDP's layers write them (`fms_fsdp/utils/train_utils.py`): 2 and 4.

`diffusers-2023` is not a language model but a U-Net of Hugging Face's diffusers
(`clustersim.kernels.programs.diffusers`).

`huggingface-2021` is GPT-2 of Hugging Face's transformers 4.3 (`programs.huggingface`), `huggingface-2023`
Llama of its 4.35 with FlashAttention-2 (`models/llama/modeling_llama.py`), as `eager` except for

- rotary positions (`apply_rotary_pos_emb`), as Megatron-LM's of 2023 forward; backward both products, 4, a negation, 1,
  each half written into zeros, 2 each, three gradients of one input added, 6, and heads rearranged into rows, 2.
- the loss, which drops the last token's fp32 scores: backward the gradient is written into zeros, 3 w more. With
  several sequences the rest is copied before, 2 w, which is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.diffusers import DIFFUSERS, diffusers_extra_bytes, diffusers_traffic
from clustersim.kernels.programs.eager import GATES, LAYER_NORM, eager_extra_bytes, eager_traffic, widths
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.kernels.programs.gnmt import EXAMPLE, ROUND, example_traffic, round_traffic
from clustersim.kernels.programs.huggingface import (
    AUTOCAST,
    HUGGINGFACE_2021,
    autocast_extra_bytes,
    autocast_traffic,
    huggingface_extra_bytes,
    huggingface_traffic,
)
from clustersim.kernels.programs.nemo import (
    NEMO,
    NEMO_AUTOCAST,
    nemo_autocast_extra_bytes,
    nemo_autocast_traffic,
    nemo_extra_bytes,
    nemo_traffic,
)
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

Both = tuple[Traffic, Traffic]


def megatron_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that Megatron-LM's loss over the vocabulary moves, None for layers of one kernel.

    Logits to fp32, their maximum, its subtraction, exp, sum, division by the sum; backward times the output's
    gradient, and back to 16 bits. 8 w and a cast forward, 2 w and a cast backward.
    """
    if layer.op != "loss":
        return None
    cast, wide = widths(precision)
    return _of_inputs(cast + 8 * wide, cast + 2 * wide)


def megatron_2023_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that a layer of Megatron-LM of 2023 moves, by the list at the top of this file.

    A gate 5 and 13 outputs, norms 2 and 5 inputs.
    """
    if layer.op in ("rms-norm", "layer-norm"):
        return LAYER_NORM
    if layer.op == "rotary":
        return _views_and_positions(layer, rotary_forward=10.0, rotary_backward=10.0, concatenate=2.0)
    if _is_gate(layer):
        return Traffic(input=0.0, output=5.0), Traffic(input=0.0, output=13.0)
    return eager_traffic(layer, precision) if layer.op == "add" else megatron_traffic(layer, precision)


def megatron_deepspeed_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that a layer of Megatron-DeepSpeed moves; its queries, keys and values are slices."""
    if layer.op == "rotary":
        return _views_and_positions(layer, rotary_forward=12.0, rotary_backward=14.0, concatenate=11.0)
    return megatron_2023_traffic(layer, precision)


def internlm_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that a layer of InternLM moves: rotary positions 2 and 2, as they are computed in place.

    A norm a cast, w + 1 forward, and a cast, 3 w + 2 backward: w + 1 for the weight, 2 w + 1 for the output.
    """
    if layer.op == "rms-norm":
        cast, wide = widths(precision)
        return _of_inputs(cast + wide + 1, cast + 3 * wide + 2)
    if layer.op == "rotary":
        return _of_inputs(2.0, 2.0)
    return eager_traffic(layer, precision) if layer.op == "add" or _is_gate(layer) else None


def fms_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that a layer of IBM's foundation-model-stack moves.

    Rotary positions 6 w and two casts of queries and keys in each pass, and 2 backward; the loss 2 and 4.
    """
    if layer.op == "loss":
        return _of_inputs(2.0, 4.0)
    if layer.op != "rotary":
        return eager_traffic(layer, precision)
    cast, wide = widths(precision)
    expanded = _expanded_keys(layer) / layer.input_elements
    return _of_inputs(2 * cast + 6 * wide + expanded, 2 * cast + 6 * wide + 2 + expanded)


def huggingface_2023_traffic(layer: Layer, precision: Precision) -> Both | None:
    """Return the elements that a layer of Hugging Face's Llama moves: rotary positions 10 and 17 of queries and keys.

    The loss a cast and 2 w forward, 7 w and a cast backward.
    """
    if layer.op == "rotary":
        return _of_inputs(10.0, 17.0)
    if layer.op == "loss":
        cast, wide = widths(precision)
        return _of_inputs(cast + 2 * wide, cast + 7 * wide)
    return eager_traffic(layer, precision)


def _expanded_keys(layer: Layer) -> float:
    """Return the traffic to write shared keys and values once for each query, 2 (keys + queries); 0 if not shared."""
    keys = layer.output_elements - layer.input_elements
    queries = layer.input_elements - keys
    return 2.0 * (keys + queries) if keys < queries else 0.0


def _views_and_positions(layer: Layer, rotary_forward: float, rotary_backward: float, concatenate: float) -> Both:
    """Return the elements of rotary positions between one GEMM of queries, keys and values and fused attention.

    With q elements of queries and k of keys, as many as of values: rotary positions move `rotary_forward` 2 q forward
    and `rotary_backward` 2 q backward. Values are copied, 2 q, or keys and values are written for each query,
    2 (k + q), and backward as much for these and `concatenate` (q + 2 k) for all three.
    """
    keys = layer.output_elements - layer.input_elements
    queries = layer.input_elements - keys
    expanded = _expanded_keys(layer)
    forward = rotary_forward * 2 * queries + (expanded or 2 * queries)
    backward = rotary_backward * 2 * queries + expanded + concatenate * (queries + 2 * keys)
    return _of_inputs(forward / layer.input_elements, backward / layer.input_elements)


def _of_inputs(forward: float, backward: float) -> Both:
    return Traffic(input=forward, output=0.0), Traffic(input=backward, output=0.0)


def _is_gate(layer: Layer) -> bool:
    return layer.op in GATES and layer.input_elements == 2 * layer.output_elements


def _matrix_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the bytes moved around matrices, where gradients of queries, keys and values need no copies."""
    return eager_extra_bytes(layer, precision) if layer.op == "fully-connected" else ExtraBytes()


def _merged_matrix_extra_bytes(layer: Layer, precision: Precision) -> ExtraBytes:
    """Return the same where matrices that read one input are merged into one, which produces one gradient of it."""
    return _matrix_extra_bytes(layer, precision)._replace(backward_data=0.0)


def sequence_transposes(layer: Layer, precision: Precision, library: str, batch: int) -> ExtraBytes:
    """Return the bytes moved to make several sequences contiguous for a fused attention, and back.

    Counted with the GEMM of attention weights and values, whose output is as large as the queries: 6 of it forward, 2
    backward.
    """
    if library not in _TOKENS_FIRST or batch == 1 or not layer.output_elements or not is_fused(layer):
        return ExtraBytes()
    mixed = precision.activation_bytes * layer.output_elements
    return ExtraBytes(forward=6.0 * mixed, backward_data=2.0 * mixed)


_TOKENS_FIRST = ("megatron-2023", "megatron-deepspeed")

TRAFFIC: Mapping[str, Callable[[Layer, Precision], Both | None]] = {
    DIFFUSERS: diffusers_traffic,
    EXAMPLE: example_traffic,
    ROUND: round_traffic,
    "eager": eager_traffic,
    "fms": fms_traffic,
    HUGGINGFACE_2021: huggingface_traffic,
    AUTOCAST: autocast_traffic,
    "huggingface-2023": huggingface_2023_traffic,
    "internlm": internlm_traffic,
    "megatron": megatron_traffic,
    "megatron-2023": megatron_2023_traffic,
    "megatron-deepspeed": megatron_deepspeed_traffic,
    NEMO: nemo_traffic,
    NEMO_AUTOCAST: nemo_autocast_traffic,
}
EXTRA_BYTES: Mapping[str, Callable[[Layer, Precision], ExtraBytes]] = {
    DIFFUSERS: diffusers_extra_bytes,
    EXAMPLE: _matrix_extra_bytes,
    ROUND: _matrix_extra_bytes,
    "eager": eager_extra_bytes,
    "fms": eager_extra_bytes,
    HUGGINGFACE_2021: huggingface_extra_bytes,
    AUTOCAST: autocast_extra_bytes,
    "huggingface-2023": eager_extra_bytes,
    "internlm": _matrix_extra_bytes,
    "megatron-2023": _merged_matrix_extra_bytes,
    "megatron-deepspeed": _merged_matrix_extra_bytes,
    NEMO: nemo_extra_bytes,
    NEMO_AUTOCAST: nemo_autocast_extra_bytes,
}
