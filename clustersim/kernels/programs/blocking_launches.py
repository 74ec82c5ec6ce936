"""Blocking launches: the process issues each kernel when the one before is done (CUDA_LAUNCH_BLOCKING=1).

"Kernel launches are asynchronous ... by setting the CUDA_LAUNCH_BLOCKING environment variable to 1" they are not (CUDA
C++ Programming Guide, "Asynchronous Concurrent Execution"). Between two kernels the GPU is then idle until the process
has received the end of one and issued the next. A pass of a layer takes

    issue time of the pass (`clustersim.kernels.host_issue`) + sum over its kernels of (time of the kernel + `NOTICE_S`)

whereas with a queue the process issues the next kernels meanwhile (`clustersim.program.issue`): that is never slower.
Kernels are counted in the source code for `library: megatron` and its variants, as in Megatron-DeepSpeed. Any other
library has one kernel per GEMM and one per other pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.programs.residual_dropout import drops_in_sums, extra_kernels
from clustersim.model.layer import HostIssue, LayerTime
from clustersim.model.tensors import has_bias
from clustersim.software import load_host

Launch = Literal["queued", "blocking", "graphs"]

LAUNCH_WAIT_S = 13e-6
"""Additional time of a kernel where the process waits for it before it issues the next.

PyTorch on an A100, sums of 4,096 x 4,096 numbers: 149 us each in the queue, 162 with a wait for each; of 512 x 512
numbers 8 and 17 (flagos-ai/Torch-FL, pull request 27, 2026, its columns of CUDA's own kernels). Without a framework,
launch and wait take 6.7 us in addition to a kernel of 2.9 on a V100 (Gray, *Getting Started with CUDA Graphs*, NVIDIA,
2019); PyTorch's process takes some 8 to issue an operator, of which the launch is a part.
"""

NOTICE_S = LAUNCH_WAIT_S - 8e-6
"""The part of it in which the process waits and does not issue: 8 us of `LAUNCH_WAIT_S` are those of an operator."""

COLLECTIVE_S = 89e-6
"""Time of PyTorch's process to issue an all-reduce, while the queue of its GPU is empty.

"c10d time" of `torch.distributed.all_reduce` in PyTorch 2.4 (pytorch/pytorch, issue 138773, 2024), of all-gathers and
reduce-scatters 131 and 122 us; measured with a profiler, so it may be too long. Of 64 all-reduces in one group it
was 45 us each, and 131 for a single one (pull request 98793, 2023).
"""


class Kernels(NamedTuple):
    """Number of kernels in each pass of a layer."""

    forward: int
    backward_data: int
    backward_weights: int


_NORM = Kernels(1, 3, 0)
_FUSED = Kernels(1, 1, 0)
MEGATRON = {
    "layer-norm": _NORM,
    "rms-norm": _NORM,
    "fully-connected": Kernels(1, 1, 1),
    "matmul": Kernels(1, 1, 1),
    "rotary": Kernels(20, 22, 0),
    "softmax": _FUSED,
    "dropout": _FUSED,
    "add": _FUSED,
    "gelu": _FUSED,
    "silu": Kernels(2, 4, 0),
    "embedding": _FUSED,
    "loss": Kernels(22, 10, 0),
}
"""Kernels of Megatron-DeepSpeed's layers (microsoft/Megatron-DeepSpeed, transformer.py of megatron/model, 1e3fc81d).

Apex's norms: the gradient of the input, those of the parameters in two steps (csrc/layer_norm_cuda_kernel.cu). Rotary
positions of queries and of keys each: cosines and sines and their casts, two products, a negation, two
concatenations of two tensors and a sum; backward 7, and 8 that concatenate queries, keys and values again, each into
zeros (`split_tensor`; rotary_pos_embedding.py, commit 9de30d88). A gate: silu and a product, backward two products,
silu's gradient and the concatenation of both. The loss: its maximum, differences, the words of a GPU's shard, their
scores, exp, sum, logarithm and division, and the mean by a mask (core/tensor_parallel/cross_entropy.py; `CrossEntropy`
in gpt_model.py).
"""

_FUSED_SCORES, _FUSED_CONTEXT = Kernels(4, 1, 1), Kernels(2, 1, 0)
"""Kernels of FlashAttention-2 there: queries, keys and values are copied, the sequence bounds written, and the
output copied back; with a single sequence three of these copies are omitted. Backward three.
"""


def kernels_of(time: LayerTime, library: str, drops: bool = False) -> Kernels:
    """Return the number of kernels of a layer; for libraries that were not counted, one for each pass that takes time.

    `drops` says that residual sums include a dropout (`residual_dropout`).
    """
    layer = time.layer
    if not library.startswith("megatron") or layer.op not in MEGATRON:
        return Kernels(bool(time.forward_s), bool(time.backward_data_s), bool(time.backward_weights_s))
    if is_fused(layer):
        return _FUSED_CONTEXT if layer.output_elements else _FUSED_SCORES
    counted = MEGATRON[layer.op]
    if layer.op == "add" and drops:
        forward, backward = extra_kernels(library)
        return Kernels(counted.forward + forward, counted.backward_data + backward, counted.backward_weights)
    return counted._replace(backward_weights=counted.backward_weights + has_bias(layer))


def with_launch_waits(
    layers: Sequence[LayerTime], library: str, host: str, precision: str, factor: float = 1.0, sign: int = 1
) -> tuple[LayerTime, ...]:
    """Return layer times in which the process issues and waits for each kernel, or, with a `sign` of -1, without that.

    The host takes `factor` times as long to issue kernels as on its sheet `host`. Measured times do not change: they
    are taken as measured.
    """
    drops = drops_in_sums((each.layer for each in layers), library)
    issued = with_issue(layers, load_host(host), precision, factor)
    return tuple(
        layer if layer.provenance == "measured" else _with_wait(layer, issue, kernels_of(layer, library, drops), sign)
        for layer, issue in zip(layers, issued, strict=True)
    )


def _with_wait(time: LayerTime, issued: LayerTime, kernels: Kernels, sign: int) -> LayerTime:
    return LayerTime(
        time.layer,
        time.forward_s + sign * (issued.forward_issue.host_s + NOTICE_S * kernels.forward),
        time.backward_data_s + sign * (issued.backward_data_issue.host_s + NOTICE_S * kernels.backward_data),
        time.backward_weights_s + sign * (issued.backward_weights_issue.host_s + NOTICE_S * kernels.backward_weights),
        time.provenance,
    )


def update_wait_s(host: HostIssue) -> float:
    """Return the seconds in which the process issues and waits for the kernels of an update of the whole model."""
    return host.update.host_s + NOTICE_S * host.update.kernels
