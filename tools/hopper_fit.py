"""Hopper's tensor cores, from PyTorch's ResNet-50 on an H100; VGG-13's convolutions there are left out and scored.

Few kernels, so few constants: the shares of peak (one for both backward phases, which were timed together), the
memory's share, the prologue of a tile, launches, and what unaligned channels reach. Tensors are turned over once, as
cuDNN's nchwToNhwcKernel does. The rest is Volta's, but for plain products (`product_fit`) and the side of a tile at
which the supply of operands halves the rate. That follows from the sheets: a multiprocessor reads 64 bytes a clock
from the second-level cache (NVIDIA, A100 whitepaper, 2020), and a tile of r x c needs (r + c) elements for 2 r c FLOP,
so half = bytes of an element x FLOP a clock / (2 x 64): 16 on Volta (1024 FLOP a clock in fp16), 32 on the A100
(2048), 64 on Hopper (4096, or 2048 of four bytes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from chip_fit import NAMES, Chip, constants, predicted
from kernel_data import Kernel

from clustersim.kernels.kernel_model import PHASES

HOPPER = Chip("gh100-tensor", ("h100",), "tensor", {"thin_traffic": 0.0})
TILE_HALF = {"gv100-tensor": 16.0, "ga100-tensor": 32.0, "gh100-tensor": 64.0}
FREE = (
    "forward", "backward_data", "memory_efficiency", "unaligned", "convolution_prologue", "forward_launches",
    "backward_data_launches",
)  # fmt: skip
LIMIT = {"convolution_prologue": 1000.0, "forward_launches": 20.0, "backward_data_launches": 20.0}
REFERENCE_SIDE = 64.0  # of the 128 x 128 tile to which the shares of peak refer


def fit_hopper(timed: Sequence[tuple[Kernel, ...]], volta: np.ndarray) -> np.ndarray:
    """Return Hopper's vector: `FREE` fitted to operators (one kernel, or a backward pair), the rest from Volta's."""
    from scipy.optimize import least_squares

    start = volta.copy()
    for name in ("convolution_tile_half", "matmul_tile_half"):
        start[NAMES.index(name)] = np.log(TILE_HALF["gh100-tensor"])
    start[NAMES.index("layout_passes")] = np.log(1.0)
    free = [NAMES.index(name) for name in FREE]

    def whole(values: np.ndarray) -> np.ndarray:
        vector = start.copy()
        vector[free] = values
        vector[NAMES.index("backward_weights")] = vector[NAMES.index("backward_data")]
        return vector

    upper = np.log([LIMIT.get(name, 1.0) for name in FREE])
    start[free] = np.minimum(start[free], upper - 0.05)

    def residuals(values: np.ndarray) -> np.ndarray:
        return operator_errors(whole(values), timed)

    solution = least_squares(
        residuals, start[free],
        bounds=(np.full(len(free), -5.0), upper), loss="soft_l1", f_scale=0.2,
    )  # fmt: skip
    return whole(solution.x)


def ampere_from(hopper: np.ndarray) -> np.ndarray:
    """Return the A100's vector: Hopper's, but for the larger share of peak that its slower cores allow convolutions."""
    vector = hopper.copy()
    share = supplied("ga100-tensor") / supplied("gh100-tensor")
    for phase in PHASES:
        index = NAMES.index(phase)
        vector[index] = min(0.0, vector[index] + np.log(share))
    for name in ("convolution_tile_half", "matmul_tile_half"):
        vector[NAMES.index(name)] = np.log(TILE_HALF["ga100-tensor"])
    return vector


def supplied(chip: str) -> float:
    """Return the share of peak that the supply of operands allows a 128 x 128 tile."""
    return REFERENCE_SIDE / (REFERENCE_SIDE + TILE_HALF[chip])


def operator_errors(vector: np.ndarray, timed: Sequence[tuple[Kernel, ...]]) -> np.ndarray:
    """Return log(model / measured) of operators, each of one kernel or a backward pair."""
    flat = [kernel for pair in timed for kernel in pair]
    seconds = predicted(flat, constants(HOPPER, vector))
    starts = np.cumsum([0, *(len(pair) for pair in timed)])[:-1]
    return np.log(np.add.reduceat(seconds, starts) / [pair[0].seconds for pair in timed])
