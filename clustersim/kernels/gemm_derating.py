"""Derating of GEMMs in training: the share of its isolated rate that a GEMM keeps, on tensor cores.

The constants of GEMMs on Ampere and Hopper are fitted to GEMMs that were timed in isolation, the same one repeatedly.
In training, GEMMs alternate with all other kernels, write what the next kernel reads, and include biases and
activations. How much of the loss each of these causes, and how much is clocks lowered by the power limit, is not known.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.model.layer import Layer

TRAINING_DERATING = {"ga100-tensor": 0.89, "gh100-tensor": 0.67, "gb100-tensor": 0.72}
"""Derating by the chip whose constants a GPU has, its own or those of a related chip. Other chips have 1, since their
GEMMs were observed at full rate in training (Volta) or nothing is known.

Ampere's and Hopper's are fitted by least squares to 21 published steps, with equal weight for every source, of one GPU
or of the eight of a host, which wait for the slowest and whose exchange is assumed to be hidden. Hopper: GPT-2 XL
compiled in bfloat16 and, three times, in FP8 with TransformerEngine's layers, on H100 and H200
(ROCm/TransformerEngine, issue 72, 2024, its batch in bfloat16 assumed: 14), Phi-3 mini in FP8, compiled
(Lightning-AI/lightning-thunder, issue 1364, 2024), nanochat's model of 20 layers on eight H100 (karpathy/nanochat,
discussion 1, 2025). Ampere: four GPTs on eight A100 with FlashAttention 1 and fused layers (Dao-AILab/flash-attention,
training/README.md, commit 0b037c2d), two of them again with FlashAttention 1 and 2 and 2,048 and 8,192 tokens (Dao,
arXiv:2307.08691, table 1), forward and both passes of a layer of BERT-large (mli/transformers-benchmarks, README.md,
commit 04df81d0; element-wise kernels assumed to access an element in the time of 2 bytes), nanochat on eight A100
(pull request 147).

All of them are long enough that the host (`clustersim.program.issue`) keeps no GPU waiting. Accurate to a tenth, not
to a hundredth: nanochat on A100 alone needs none. In layers that are issued operation by operation the FP8 steps take
35 to 41 ms longer than forecast at any batch. The cause is not known (`docs/physics/products-in-training.md`,
*Products in training*).

Blackwell's is not from steps: products of at least 0.1 ms on a B200 by the wall clock, through TransformerEngine,
reach 0.72 of what the constants say (MooreThreads/SimuMax, commit 4dcaae51), and 0.92 on an A100 PCIe.
"""

_GEMM_OPS = ("fully-connected", "embedding", "matmul", "experts", "router", "lstm", "gru", "rnn")


def gemm_derating(layer: Layer, constants: KernelConstants) -> float:
    """Return the derating of a layer's GEMMs: it applies to dense GEMMs on tensor cores, one kernel each.

    It does not apply to fused attention, nor to convolutions, which were timed in training. An embedding is included
    where it is computed as one-hot rows times a table (`embedding_and_head`).
    """
    return TRAINING_DERATING.get(constants.chip, 1.0) if layer.op in _GEMM_OPS else 1.0


def derated_constants(constants: KernelConstants) -> KernelConstants:
    """Return constants with which FLOP without a shape run at the rate of large GEMMs of layers."""
    large = constants.efficiency["matmul_forward"] * TRAINING_DERATING.get(constants.chip, 1.0)
    return replace(constants, efficiency={**constants.efficiency, "matmul_forward": large})
