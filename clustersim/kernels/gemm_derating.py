"""What products of layers keep in training of the rate that products timed one by one reach, on tensor cores.

The constants of products on Ampere and Hopper are fitted to products that people timed alone, the same one again and
again. Those of a GPU that trains come in turn with everything else, write what the next kernel reads, and take biases
and activations along. What of that, and of clocks below the limit of power, costs how much is not known apart.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.model.layer import Layer

TRAINING_SHARE = {"ga100-tensor": 0.88, "gh100-tensor": 0.70}
"""Share by the chip whose constants a GPU has, its own or a relative's: Hopper's has Blackwell too. Elsewhere 1, since
products were met in training without one (Volta) or nothing is known.

Fitted by least squares to 24 published steps, every source weighing the same, of one GPU or of the eight of a
host that wait for the slowest and whose exchange is taken to hide. Hopper: GPT-2 XL compiled in bfloat16 (three) and
in 8 bits by TransformerEngine's layers (four), on H100 of 700 and 500 W and H200 (ROCm/TransformerEngine, issue 72,
2024, its batch in bfloat16 assumed: 14; pytorch/ao, issue 1297, 2024), Phi-3 mini in 8 bits, compiled (Lightning-
AI/lightning-thunder, issue 1364, 2024), nanochat's model of 20 layers on eight H100 (karpathy/nanochat, discussion 1,
2025). Ampere: four GPTs on eight A100 with the first FlashAttention and fused layers (Dao-AILab/flash-attention,
training/README.md, commit 0b037c2d), two of them again with the first and the second and 2,048 and 8,192 tokens (Dao,
arXiv:2307.08691, table 1), forward and both passes of a layer of BERT-large (mli/transformers-benchmarks,
README.md, commit 04df81d0; element-wise kernels assumed to take 2 bytes' time for a number), nanochat on eight A100
(pull request 147).

Good to a tenth, not a hundredth: without one of the sources Hopper's is 0.67 to 0.73 and Ampere's 0.83 to 0.90, and
nanochat on A100 needs none. On Hopper what is compiled in 16 bits alone wants 0.81, what TransformerEngine multiplies
in 8 bits 0.59, which in layers issued operation by operation takes 35 to 41 ms longer at any batch, of which the cause
is not known (`docs/physics/products-in-training.md`, *Products in training*).
"""

_PRODUCTS = ("fully-connected", "embedding", "matmul", "experts", "router", "lstm", "gru", "rnn")


def gemm_derating(layer: Layer, constants: KernelConstants) -> float:
    """Return the share that a layer's products keep: those of matrices on tensor cores, one kernel each.

    Fused attention is no such product, and convolutions were timed in training. An embedding is one where it multiplies
    one-hot rows (`language_ends`).
    """
    return TRAINING_SHARE.get(constants.chip, 1.0) if layer.op in _PRODUCTS else 1.0


def in_training(constants: KernelConstants) -> KernelConstants:
    """Return constants by which FLOP without a shape take as long as large products of layers."""
    large = constants.efficiency["matmul_forward"] * TRAINING_SHARE.get(constants.chip, 1.0)
    return replace(constants, efficiency={**constants.efficiency, "matmul_forward": large})
