"""Fits the kernel model's constants to published kernel timings and writes `clustersim/workload/kernel_fit.yaml`.

    python tools/fit_kernels.py FOLDER

FOLDER has the CSV files that `kernel_data.py` names. Every fourth kernel shape (with all its batches, on
all devices) is left out of the fit and scored. Nothing about a whole network or a cluster is fitted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import numpy as np
from element_wise import fit_element_wise
from kernel_data import Kernel, deepbench, titan_black
from scipy.optimize import least_squares
from score_networks import score_networks
from write_fit import write_fit

from clustersim.workload.kernel_constants import KernelConstants, Shared, constants_for, fit_document
from clustersim.workload.kernel_model import (
    PHASES,
    Product,
    Rates,
    convolution_products,
    matmul_products,
    product_seconds,
)
from clustersim.workload.precision import PRECISIONS

SHARED_START = Shared(6.0, 13.0, 64.0, 13.0, 0.2, 2.0, 2.0, 0.7, 1.0, 4.0, 4.0, 8.0)
SHARED_LIMIT = Shared(256.0, 256.0, 256.0, 256.0, 4.0, 8.0, 8.0, 1.0, 20.0, 20.0, 20.0, 20.0)
FITTED = [("maxwell", "ordinary"), ("pascal", "ordinary"), ("volta", "ordinary"), ("volta", "tensor")]
SHARES = ("matmul", *PHASES, *(f"winograd_{phase}" for phase in PHASES))
NUM_SHARED = len(fields(Shared))


def constants_from(vector: np.ndarray, number: int) -> KernelConstants:
    """Return the constants of `FITTED[number]` that a vector of logarithms stands for."""
    start = NUM_SHARED + number * len(SHARES)
    shares = dict(zip(SHARES, np.exp(vector[start : start + len(SHARES)]).tolist(), strict=True))
    ordinary = FITTED[number][1] == "ordinary"  # tensor cores multiply whole tiles: no Winograd on them
    winograd: dict[str, float] = {phase: shares[f"winograd_{phase}"] for phase in PHASES if ordinary}
    return made(Shared(*np.exp(vector[:NUM_SHARED]).tolist()), shares, winograd)


def made(shared: Shared, shares: dict[str, float], winograd: dict[str, float]) -> KernelConstants:
    """Return constants for products alone; nothing element-wise is fitted with them."""
    efficiency = {name: shares[name] for name in ("matmul", *PHASES)}
    return KernelConstants(shared, efficiency, winograd, {}, 1.0, "", False)


def predicted(kernels: Sequence[Kernel], constants: KernelConstants) -> np.ndarray:
    """Return the model's seconds of kernels that are all on one GPU at one precision."""
    gpu, precision = kernels[0].gpu, kernels[0].precision
    rates = Rates(gpu.flop_per_s[precision], gpu.memory_bytes_per_s, gpu.num_multiprocessors, gpu.launch_s)
    products: list[Product] = []
    starts: list[int] = []
    for kernel in kernels:
        make = convolution_products if kernel.op == "convolution" else matmul_products
        starts.append(len(products))
        products += make(kernel.shape, kernel.batch, kernel.phase, constants, PRECISIONS[precision].operand_bytes)
    return np.minimum.reduceat(product_seconds(products, rates, constants), starts)


def residuals(vector: np.ndarray, groups: Sequence[tuple[int, list[Kernel]]]) -> np.ndarray:
    """Return log(model / measured) of every kernel, group after group."""
    return np.concatenate(
        [
            np.log(predicted(kernels, constants_from(vector, number)) / [kernel.seconds for kernel in kernels])
            for number, kernels in groups
        ]
    )


def grouped(kernels: Sequence[Kernel]) -> list[tuple[int, list[Kernel]]]:
    """Return the kernels by GPU and precision, with the number of the constants they take."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.gpu.name, kernel.precision), []).append(kernel)
    return [(_number(group[0]), group) for group in groups.values()]


def _number(kernel: Kernel) -> int:
    return FITTED.index((kernel.gpu.architecture, PRECISIONS[kernel.precision].units))


def fit(kernels: Sequence[Kernel], evaluations: int) -> np.ndarray:
    """Return the vector that fits best, large errors counting linearly."""
    shares = np.full(len(FITTED) * len(SHARES), 0.6)
    start = np.log([*asdict(SHARED_START).values(), *shares])
    upper = np.log([*asdict(SHARED_LIMIT).values(), *np.ones_like(shares)])
    lower = np.concatenate([start[:NUM_SHARED] - 5.0, np.log(0.05 * np.ones_like(shares))])
    solution = least_squares(
        residuals, start, bounds=(lower, upper), args=(grouped(kernels),), loss="soft_l1", f_scale=0.2,
        diff_step=np.full(len(start), 1e-3), max_nfev=evaluations,
    )  # fmt: skip
    return np.asarray(solution.x)


def fit_kepler(kernels: Sequence[Kernel], vector: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Return Kepler's shares of peak, and log(model / measured) with them; shapes cost what they cost Maxwell.

    The convolutions' shares are medians over the measured layers. No product was measured: it gets Maxwell's
    share in proportion to the forward convolutions'.
    """
    maxwell = constants_from(vector, FITTED.index(("maxwell", "ordinary")))
    shares = dict(maxwell.efficiency)
    for _ in range(20):  # the share enters through a maximum with the memory's time, so step by step
        for phase in PHASES:
            those = [kernel for kernel in kernels if kernel.phase == phase]
            error = predicted(those, made(maxwell.shared, shares, {})) / [kernel.seconds for kernel in those]
            shares[phase] *= float(np.median(error))
    shares["matmul"] = maxwell.efficiency["matmul"] * shares["forward"] / maxwell.efficiency["forward"]
    errors = np.log(predicted(kernels, made(maxwell.shared, shares, {})) / [kernel.seconds for kernel in kernels])
    return shares, errors


def summary(errors: np.ndarray) -> dict[str, float]:
    """Return how far a model is off: of |log(model / measured)| the median and the ninth decile, and the bias."""
    return {
        "kernels": len(errors),
        "median": round(float(np.median(np.abs(errors))), 3),
        "p90": round(float(np.quantile(np.abs(errors), 0.9)), 3),
        "bias": round(float(np.median(errors)), 3),
    }


def scored(vector: np.ndarray, kernels: Sequence[Kernel]) -> dict[str, dict[str, float]]:
    """Return the summary over all kernels, and over each GPU's and phase's."""
    groups = grouped(kernels)
    errors = residuals(vector, groups)
    flat = [kernel for _, group in groups for kernel in group]
    labels: dict[str, list[int]] = {"all": list(range(len(flat)))}
    for index, kernel in enumerate(flat):
        labels.setdefault(f"{kernel.gpu.name} {kernel.precision}", []).append(index)
        labels.setdefault("matmul" if kernel.op == "matmul" else kernel.phase, []).append(index)
    return {label: summary(errors[rows]) for label, rows in labels.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--evaluations", type=int, default=25, help="steps of the fit")
    arguments = parser.parse_args()
    kernels = deepbench(arguments.folder)
    keys = sorted({kernel.key for kernel in kernels}, key=str)
    left_out = set(keys[3::4])
    train = [kernel for kernel in kernels if kernel.key not in left_out]
    held = [kernel for kernel in kernels if kernel.key in left_out]
    vector = fit(train, arguments.evaluations)
    kepler, kepler_errors = fit_kepler(titan_black(arguments.folder), vector)
    constants = [constants_from(vector, number) for number in range(len(FITTED))]
    write = partial(
        write_fit,
        shared=asdict(constants[0].shared),
        fitted={name: (each.efficiency, each.winograd) for name, each in zip(FITTED, constants, strict=True)},
        kepler=kepler,
        element_wise=fit_element_wise(arguments.folder),
        scores={
            "fitted": scored(vector, train),
            "left_out": scored(vector, held),
            "kepler": {"titan-black fp32": summary(kepler_errors)},
        },
    )
    write(networks={})
    fit_document.cache_clear()
    constants_for.cache_clear()
    write(networks=score_networks(arguments.folder))


if __name__ == "__main__":
    main()
