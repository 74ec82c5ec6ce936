"""Fits the kernel model's constants to published kernel timings and writes them to `clustersim/kernels`.

    python tools/fit_kernels.py FOLDER
    python tools/fit_kernels.py --tables aiconfigurator_core/systems/data --layouts simumax

The second command refits only dense products on tensor cores from Ampere on (`table_fit.py`), and prints their errors.
FOLDER has the CSV files that `kernel_data.py` names. Each chip is fitted by itself. Every fourth kernel shape (with all
its batches and phases) is left out of the fit; three more fits leave out the other quarters, so that every kernel
is scored once by constants that have not seen its shape. Nothing about a whole network or a cluster is fitted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ampere_fit import AMPERE, fit_ampere
from chip_fit import MATMULS, NUM_FOLDS, Chip, constants, errors, fit, folds, predicted, summary
from element_wise import fit_element_wise
from hopper_fit import HOPPER, ampere_from, fit_hopper, operator_errors
from kernel_data import Kernel, deepbench, h100_convolutions, titan_black
from product_fit import main as score_products
from real_operands import CHIP, square_errors, with_real_operands
from score_networks import score_networks
from table_fit import errors_of_tables, restore, stored_laws
from table_fit import main as fit_tables
from write_fit import ChipConstants, write_fit, write_networks

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import PHASES

NO_THIN = {"thin_traffic": 0.0}  # only Pascal's cuBLAS 8 took a kernel of its own for few columns
NO_LAYOUT = {"layout_passes": 1e-6, **NO_THIN}  # cuDNN's Volta kernels take images channels first
CHIPS = (
    Chip("gm200", ("titan-x-maxwell", "m40"), fixed=NO_THIN),
    Chip("gp102", ("titan-x-pascal",)),
    Chip("gp100", ("p100-pcie",)),
    Chip("gv100", ("v100",), fixed=NO_THIN),
    Chip("gv100-tensor", ("v100",), "tensor", NO_LAYOUT),
)
# What a GPU takes whose own kernels nobody timed: its chip's; or else the chip's with as many lanes a multiprocessor
# (128 on GM200 and GP102, 64 on GP100 and GV100) that is nearest in time.
NEAREST = {
    "m40": Chip("gm200 (titan-x-maxwell)", ("titan-x-maxwell",), fixed=NO_THIN),
    "titan-x-maxwell": Chip("gm200 (m40)", ("m40",), fixed=NO_THIN),
    "titan-x-pascal": CHIPS[0],
    "p100-pcie": CHIPS[3],
    "v100": CHIPS[2],
}


class Fitted(NamedTuple):
    """A chip's stored constants, and its kernels' errors: in the fit, and by constants that have not seen them."""

    vector: np.ndarray
    fitted: dict[str, dict[str, float]]
    left_out: dict[str, dict[str, float]]


def fit_chip(chip: Chip, kernels: Sequence[Kernel], keys: Sequence[object], evaluations: int) -> Fitted:
    """Return a chip's constants, and its errors in the fit and left out of it.

    Spectrograms (one channel) on tensor cores are scored but not fitted to: no network of the catalogue has them, and
    the library runs them five times slower than images' three channels.
    """
    number = folds(kernels, keys)
    unseen = np.zeros(len(kernels))
    vector, inside = np.zeros(0), np.zeros(0)
    for fold in range(NUM_FOLDS):
        print(f"{chip.name}: fit {fold + 1} of {NUM_FOLDS}", file=sys.stderr)
        train = [
            kernel
            for kernel, other in zip(kernels, number, strict=True)
            if other != fold and not (chip.units == "tensor" and kernel.shape.get("channels") == 1)
        ]
        vector = fit(chip, train, evaluations)
        every = errors(chip, vector, kernels)
        unseen[number == fold] = every[number == fold]
        inside = every[number != fold]
    seen = [kernel for kernel, other in zip(kernels, number, strict=True) if other != NUM_FOLDS - 1]
    return Fitted(vector, scored(seen, inside), scored(kernels, unseen))


def scored(kernels: Sequence[Kernel], error: np.ndarray) -> dict[str, dict[str, float]]:
    """Return the summary of each GPU and precision, and of its plain products and phases."""
    rows: dict[str, list[int]] = {}
    for index, kernel in enumerate(kernels):
        name = f"{kernel.gpu.name} {kernel.precision}"
        rows.setdefault(name, []).append(index)
        rows.setdefault(f"{name}, {'products' if kernel.op == 'product' else kernel.phase}", []).append(index)
    return {name: summary(error[those]) for name, those in rows.items()}


def fit_kepler(kernels: Sequence[Kernel], maxwell: KernelConstants) -> tuple[KernelConstants, np.ndarray]:
    """Return Kepler's constants, and log(model / measured) with them; shapes cost what they cost Maxwell.

    The convolutions' shares are medians over the measured layers. No product was measured: it gets Maxwell's
    share in proportion to the forward convolutions'; so do Winograd's products,
    which libraries have since cuDNN 5: for the K80, with which those were in use.
    """
    shares = dict(maxwell.efficiency)

    def made() -> KernelConstants:
        return KernelConstants(maxwell.shape, dict(shares), {}, {}, 1.0, "", False, False)

    shares |= dict.fromkeys(MATMULS, 1e-6)  # cuDNN R2 had no Fourier transforms, which run at a product's share

    for _ in range(20):  # the share enters through a maximum with the memory's time, so step by step
        for phase in PHASES:
            those = [kernel for kernel in kernels if kernel.phase == phase]
            shares[phase] *= float(np.median(predicted(those, made()) / [kernel.seconds for kernel in those]))
    error = np.log(predicted(kernels, made()) / [kernel.seconds for kernel in kernels])
    for name in MATMULS:
        shares[name] = maxwell.efficiency[name] * shares["forward"] / maxwell.efficiency["forward"]
    winograd = {phase: share * shares[phase] / maxwell.efficiency[phase] for phase, share in maxwell.winograd.items()}
    return replace(made(), winograd=winograd), error


def never_seen(
    kernels: Sequence[Kernel], vectors: Mapping[str, np.ndarray], evaluations: int
) -> dict[str, dict[str, float | str]]:
    """Return the summary of each GPU with constants fitted on other GPUs alone."""
    table: dict[str, dict[str, float | str]] = {}
    for name, chip in NEAREST.items():
        vector = vectors[chip.name] if chip.name in vectors else fit(chip, chip.kernels(kernels), evaluations)
        those = [kernel for kernel in kernels if kernel.gpu.name == name and kernel.precision == "fp32"]
        table[f"{name} fp32"] = {"constants": chip.name, **summary(errors(chip, vector, those))}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tables", type=Path, help="refit products to aiconfigurator's systems/data")
    parser.add_argument("--layouts", type=Path, help="folder with SimuMax's shares of products by layout")
    parser.add_argument("--evaluations", type=int, default=15, help="steps of each fit")
    arguments = parser.parse_args()
    if arguments.tables:
        fit_tables(arguments.tables, arguments.layouts)
    if arguments.folder:
        fit_all(arguments.folder, arguments.evaluations)
    if not (arguments.tables or arguments.folder):
        parser.error("give FOLDER, --tables, or both")


def fit_all(folder: Path, evaluations: int) -> None:
    """Fit every chip whose kernels FOLDER has, and write the constants and their errors."""
    kernels = deepbench(folder)
    keys = sorted({kernel.key for kernel in kernels}, key=str)
    fits = {chip.name: fit_chip(chip, chip.kernels(kernels), keys, evaluations) for chip in CHIPS}
    known = {chip.name: constants(chip, fits[chip.name].vector) for chip in CHIPS}
    kepler, kepler_errors = fit_kepler(titan_black(folder), known["gm200"])
    trained, other = (h100_convolutions(folder, network) for network in ("resnet50", "vgg13"))
    hopper = fit_hopper(trained, fits["gv100-tensor"].vector)
    known |= {"gk110": replace(kepler, winograd={}), "gk210": kepler, HOPPER.name: constants(HOPPER, hopper)}
    ampere, ampere_errors = fit_ampere(folder, ampere_from(hopper), fits["gv100-tensor"].vector)
    known[AMPERE.name] = constants(AMPERE, ampere)
    known[CHIP] = with_real_operands(known[CHIP])
    scores = {
        "fitted": {name: row for each in fits.values() for name, row in each.fitted.items()}
        | {
            "titan-black fp32": summary(kepler_errors),
            "h100 tf32, resnet50": summary(operator_errors(hopper, trained)),
            "a100-40gb amp-fp16": summary(ampere_errors),
            "v100 amp-fp16, squares of random numbers": summary(square_errors(known[CHIP])),
        },
        "left_out": {name: row for each in fits.values() for name, row in each.left_out.items()}
        | {"h100 tf32, vgg13": summary(operator_errors(hopper, other))},
        "never_seen": never_seen(kernels, {name: each.vector for name, each in fits.items()}, evaluations),
    }
    chips = {
        name: ChipConstants(asdict(each.shape), dict(each.efficiency), dict(each.winograd))
        for name, each in known.items()
    }
    element_wise = fit_element_wise(folder)
    laws, tables = stored_laws(), errors_of_tables()
    write_fit(chips, element_wise, scores)
    restore(laws, tables)
    score_products()
    write_networks(score_networks(folder))


if __name__ == "__main__":
    main()
