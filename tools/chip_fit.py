"""One chip's constants as a vector of logarithms, and the vector that meets its kernels best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import numpy as np
from kernel_data import Kernel

from clustersim.kernels.convolution_kernels import convolution_gemms
from clustersim.kernels.kernel_constants import KernelConstants, ShapeConstants
from clustersim.kernels.kernel_model import (
    PHASES,
    Gemm,
    gemm_seconds,
    plain_gemm,
    rates_of,
)
from clustersim.model.precision import PRECISIONS

NUM_FOLDS = 4
PULL = 0.05  # how hard a constant is held to its start: an error of 5 % for each factor of e
SHAPE_START = ShapeConstants(
    8.0, 16.0, 0.2, 20.0, 16.0, 0.2, 1.0, 2.0, 1.2, 1.4, 1.1, 1.5, 2.0, 0.5, 0.4, 0.75, 1.0, 2.5, 3.0, 4.0
)
SHAPE_LIMIT = ShapeConstants(
    400.0, 300.0, 5.0, 400.0, 300.0, 5.0, 10.0, 8.0, 8.0, 8.0, 8.0, 8.0, 12.0, 4.0, 1.0, 1.0, 20.0, 20.0, 20.0, 20.0
)
MATMULS = tuple(f"matmul_{phase}" for phase in PHASES)
WINOGRADS = tuple(f"winograd_{phase}" for phase in PHASES)
SHARES = (*MATMULS, *PHASES, *WINOGRADS)
NAMES = (*(each.name for each in fields(ShapeConstants)), *SHARES)


@dataclass(frozen=True)
class Chip:
    """A chip whose kernels were timed, on one GPU or more; `fixed` are the constants that its data cannot tell."""

    name: str
    gpus: tuple[str, ...]
    units: str = "ordinary"
    fixed: Mapping[str, float] = field(default_factory=dict)

    def kernels(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        return [
            kernel
            for kernel in kernels
            if kernel.gpu.name in self.gpus and PRECISIONS[kernel.precision].units == self.units
        ]


def constants(chip: Chip, vector: np.ndarray) -> KernelConstants:
    """Return the constants that a vector stands for; tensor cores multiply whole tiles, without Winograd."""
    tensor = chip.units == "tensor"
    values = dict(zip(NAMES, np.exp(vector).tolist(), strict=True)) | dict(chip.fixed)
    values |= {} if tensor else {"layout_passes": 0.0, "unaligned": values["matmul_forward"]}
    return KernelConstants(
        shape=ShapeConstants(**{each.name: values[each.name] for each in fields(ShapeConstants)}),
        efficiency={name: values[name] for name in (*MATMULS, *PHASES)},
        winograd={} if tensor else {phase: values[f"winograd_{phase}"] for phase in PHASES},
        element_wise={}, memory_efficiency=1.0, source="", tensor=tensor, assumed=False,
    )  # fmt: skip


def predicted(kernels: Sequence[Kernel], known: KernelConstants) -> np.ndarray:
    """Return the model's seconds of kernels, GPU after GPU as they come."""
    seconds = np.zeros(len(kernels))
    groups: dict[tuple[str, str], list[int]] = {}
    for index, kernel in enumerate(kernels):
        groups.setdefault((kernel.gpu.name, kernel.precision), []).append(index)
    for rows in groups.values():
        first = kernels[rows[0]]
        products: list[Gemm] = []
        starts: list[int] = []
        for index in rows:
            starts.append(len(products))
            products += _products(kernels[index], known)
        taken = gemm_seconds(products, rates_of(first.gpu, first.precision), known)
        seconds[rows] = np.minimum.reduceat(taken, starts)
    return seconds


def _products(kernel: Kernel, known: KernelConstants) -> list[Gemm]:
    element_bytes = PRECISIONS[kernel.precision].operand_bytes
    if kernel.op == "product":
        sizes = (kernel.shape["rows"], kernel.shape["columns"], kernel.shape["inner"])
        return [plain_gemm(*sizes, 1, kernel.phase, known, element_bytes)]
    return convolution_gemms(kernel.shape, kernel.batch, kernel.phase, known, element_bytes)


def errors(chip: Chip, vector: np.ndarray, kernels: Sequence[Kernel]) -> np.ndarray:
    """Return log(model / measured) of every kernel."""
    return np.log(predicted(kernels, constants(chip, vector)) / [kernel.seconds for kernel in kernels])


def fit(chip: Chip, kernels: Sequence[Kernel], evaluations: int) -> np.ndarray:
    """Return the vector that fits best, large errors counting linearly, what the data cannot tell near its start."""
    from scipy.optimize import least_squares

    shares = np.full(len(SHARES), 0.7)
    start = np.log([*asdict(SHAPE_START).values(), *shares])
    upper = np.log([*asdict(SHAPE_LIMIT).values(), *np.ones_like(shares)])
    is_memory = np.array([name == "memory_efficiency" for name in NAMES])
    lower = np.where(is_memory, np.log(0.3), np.log(1e-3))
    told = [index for index, name in enumerate(NAMES) if name not in chip.fixed and _matters(chip, name)]
    free = np.array(told, dtype=np.int64)

    def residuals(values: np.ndarray) -> np.ndarray:
        vector = start.copy()
        vector[free] = values
        softened = soft(errors(chip, vector, kernels))
        return np.concatenate([softened, PULL * (values - start[free])])

    solution = least_squares(
        residuals, start[free], bounds=(lower[free], upper[free]), diff_step=np.array(1e-3), max_nfev=evaluations
    )
    vector = start.copy()
    vector[free] = solution.x
    return vector


def _matters(chip: Chip, name: str) -> bool:
    """Whether a constant has a part in this chip's formula."""
    if chip.units == "tensor":
        return name not in WINOGRADS
    return name not in ("layout_passes", "unaligned")


def soft(error: np.ndarray, scale: float = 0.2) -> np.ndarray:
    """Return errors whose squares grow linearly beyond `scale`."""
    size: np.ndarray = scale * np.sqrt(2 * (np.sqrt(1 + (error / scale) ** 2) - 1))
    softened: np.ndarray = np.sign(error) * size
    return softened


def folds(kernels: Sequence[Kernel], keys: Sequence[object]) -> np.ndarray:
    """Return which of the folds each kernel's shape is in; all its batches, phases and GPUs are in one."""
    number = {key: index % NUM_FOLDS for index, key in enumerate(keys)}
    return np.array([number[kernel.key] for kernel in kernels])


def summary(error: np.ndarray) -> dict[str, float]:
    """Return how far a model is off: median, geometric mean and ninth decile of a factor less 1, and the bias."""
    size = np.abs(error)
    return {
        "kernels": len(error),
        "median": round(float(np.expm1(np.median(size))), 3),
        "geometric_mean": round(float(np.expm1(np.mean(size))), 3),
        "p90": round(float(np.expm1(np.quantile(size, 0.9))), 3),
        "bias": round(float(np.expm1(np.median(error))), 3),
    }
