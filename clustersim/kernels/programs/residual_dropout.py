"""Residual sums of Megatron-LM, which include a dropout even with probability 0.

`bias_dropout_add_fused_train` is TorchScript (`megatron/model/transformer.py`, microsoft/Megatron-DeepSpeed, commit
1e3fc81d): a bias if there is one, `torch.nn.functional.dropout` in training, and the sum. PyTorch's eager `dropout`
returns its input where the probability is 0. TorchScript differentiates `native_dropout` at any probability, which
only checks for 1 (`native_dropout_cuda` in aten/src/ATen/native/cuda/Dropout.cu): it draws numbers and writes a mask of
one byte each, and backward multiplies by that. With Megatron's settings of TorchScript, no bias and a probability
of 0, PyTorch 2.13 issues `native_dropout` and `add`, and backward `native_dropout_backward`.

nvFuser fuses these: Megatron turns it on and all other fusers off (`set_jit_fusion_options` in
`megatron/initialize.py`, OpenLLM-France/Megatron-DeepSpeed, commit fd5c47a0), from PyTorch 1.10 to 2.1. Since 2.2
"nvfuser is no longer supported in torch script", and turning it on has no effect (NVIDIA/TransformerEngine, issue 666;
pytorch/pytorch, pull requests 110124 and 111093): each is a separate kernel. In tensors as large as the sum's output,
with m = 1 byte over those of an element:

- fused (`megatron-2023` and `nemo-2023`): both terms read, sum and mask written, 3 + m
- unfused (`megatron-deepspeed`): 2 + m and 3
- backward in both cases: the dropout 2 + m, and 3 for the gradients of both branches, which are added (as in `eager`)

A model with dropout layers keeps those, and its sums are as in `eager`. Left out: drawing numbers takes longer
than writing the mask.
"""

from __future__ import annotations

from collections.abc import Iterable

from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.nemo import NEMO, NEMO_AUTOCAST
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

FUSED, UNFUSED = "megatron-2023", "megatron-deepspeed"
_LIBRARIES = (FUSED, UNFUSED, NEMO, NEMO_AUTOCAST)


def drops_in_sums(layers: Iterable[Layer], library: str) -> bool:
    """Say whether the residual sums of these layers include a dropout, since none of the layers is a dropout."""
    return library in _LIBRARIES and not any(layer.op == "dropout" for layer in layers)


def sum_traffic(precision: Precision, library: str) -> tuple[Traffic, Traffic]:
    """Return the traffic of such a sum forward and backward: 3 + m or 5 + m, and 5 + m of its output.

    >>> from clustersim.model.precision import PRECISIONS
    >>> [each.output for each in sum_traffic(PRECISIONS["amp-bf16"], "megatron-deepspeed")]
    [5.5, 5.5]
    """
    mask = 1.0 / precision.activation_bytes
    forward = 5.0 + mask if library == UNFUSED else 3.0 + mask
    return Traffic(input=0.0, output=forward), Traffic(input=0.0, output=5.0 + mask)


def extra_kernels(library: str) -> tuple[int, int]:
    """Return how many kernels such a sum has in addition to one, forward and backward."""
    return (1, 1) if library == UNFUSED else (0, 1)
