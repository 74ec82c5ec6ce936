"""What products of layers keep in training of the rate that products timed one by one reach, on tensor cores.

The constants of products on Ampere and Hopper are fitted to products that people timed alone, the same one again and
again. Those of a GPU that trains come in turn with everything else, write what the next kernel reads, and take biases
and activations along. What of that, and of clocks below the limit of power, costs how much is not known apart.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.workload.kernel_constants import KernelConstants
from clustersim.workload.layer import Layer

TRAINING_SHARE = {"ga100-tensor": 0.87, "gh100-tensor": 0.72}
"""Share by the chip whose constants a GPU has, its own or a relative's: Hopper's has Blackwell too. Elsewhere 1, since
products were met in training without one (Volta) or nothing is known.

Fitted by least squares to ten published steps of one GPU, or of the eight of a host whose exchange is taken to hide.
Hopper, every step weighing the same: GPT-2 XL on one H100 in bfloat16, compiled (its batch assumed: 14), and on one
H200 in 8 bits (ROCm/TransformerEngine, issue 72, 2024), nanochat's model of 20 layers on eight H100 (karpathy/nanochat,
discussion 1, 2025). Ampere, every source weighing the same: four GPTs on eight A100 with the first FlashAttention and
fused layers (Dao-AILab/flash-attention, training/README.md, commit 0b037c2d), forward and both passes of a layer of
BERT-large (mli/transformers-benchmarks, README.md, commit 04df81d0; element-wise kernels assumed to take 2 bytes' time
for a number), nanochat on eight A100 (pull request 147).

Good to a tenth, not a hundredth: without one of the steps Hopper's is 0.69 to 0.74, with equal sources 0.71; without
one of the sources Ampere's is 0.81 to 0.91, and nanochat on A100 needs none. Two steps of one H100 were not fitted and
contradict it: TransformerEngine's tutorial on Llama 2 takes 252 and 315 ms, where 192 and 221 are forecast with it.
"""

_PRODUCTS = ("fully-connected", "embedding", "matmul", "experts", "router", "lstm", "gru", "rnn")


def training_share(layer: Layer, constants: KernelConstants) -> float:
    """Return the share that a layer's products keep: those of matrices on tensor cores, one kernel each.

    Fused attention is no such product, and convolutions were timed in training. An embedding is one where it multiplies
    one-hot rows (`language_ends`).
    """
    return TRAINING_SHARE.get(constants.chip, 1.0) if layer.op in _PRODUCTS else 1.0


def in_training(constants: KernelConstants) -> KernelConstants:
    """Return constants by which FLOP without a shape take as long as large products of layers."""
    large = constants.efficiency["matmul_forward"] * TRAINING_SHARE.get(constants.chip, 1.0)
    return replace(constants, efficiency={**constants.efficiency, "matmul_forward": large})
