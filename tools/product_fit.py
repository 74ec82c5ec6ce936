"""Scores plain products on the tensor cores of Hopper and Ampere with rates that people published, shape by shape.

    python tools/product_fit.py

reads `product_rates.csv` and writes the errors into `clustersim/kernels/kernel_errors.yaml`; `fit_kernels.py` ends with
it. Nothing is fitted to these rates. They were timed one product after another, without CUDA graphs: the host's launch
is in those under 20 us, which are a row of their own.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from chip_fit import summary
from kernel_data import Kernel
from ruamel.yaml import YAML
from write_fit import ERRORS_HEADER, KERNELS, write

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import KernelConstants, constants_for
from clustersim.kernels.kernel_model import Gemm, gemm_seconds, plain_gemm, rates_of
from clustersim.model.precision import PRECISIONS

RATES = Path(__file__).with_name("product_rates.csv")
SHORT_S = 20e-6
ORIGIN = (
    "openxla/xla in tensorflow/tensorflow, third_party/xla/xla/service/gpu/model/matmul_interpolator_data.h, commit "
    "372d578bb861cc5804e56d37d93aec931a59762c, its last 76 entries; zzc0721/torch-performance-test-data, issue 79; "
    "stas00/ml-engineering, compute/accelerator/README.md, commit b9e29720eebd4aa946fa9678975385efbc90a777; "
    "vllm-project/vllm, pull request 49363; triton-lang/triton, issues 743, 3551 and 7085"
)


def product_rates(gpu: str) -> list[Kernel]:
    """Return the products that were timed on a GPU as kernels, row-major matrices, BLAS's NN; `key` is the source."""
    with RATES.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["gpu"] == gpu]
    return [_kernel(row) for row in rows]


def _kernel(row: Mapping[str, str]) -> Kernel:
    shape = {name: int(row[name]) for name in ("count", "rows", "columns", "inner")}
    seconds = 2.0 * np.prod([float(size) for size in shape.values()]) / (float(row["tflop_per_s"]) * 1e12)
    gpu, precision = load_gpu(row["gpu"]), row["precision"]
    return Kernel(gpu, precision, "product", shape, 1, "backward_data", float(seconds), (row["source"],))


def errors(kernels: Sequence[Kernel], known: KernelConstants) -> np.ndarray:
    """Return log(model / measured) of every product."""
    found: dict[str, list[Gemm]] = {}
    for kernel in kernels:
        shape, size = kernel.shape, PRECISIONS[kernel.precision].operand_bytes
        sizes = (shape["rows"], shape["columns"], shape["inner"], shape["count"])
        found.setdefault(kernel.precision, []).append(plain_gemm(*sizes, kernel.phase, known, size))
    gpu = kernels[0].gpu
    seconds = {name: iter(gemm_seconds(group, rates_of(gpu, name), known)) for name, group in found.items()}
    return np.array([np.log(next(seconds[kernel.precision]) / kernel.seconds) for kernel in kernels])


def main() -> None:
    """Score, and write the errors."""
    yaml = YAML(typ="safe", pure=True)
    scores: dict[str, Any] = yaml.load((KERNELS / "kernel_errors.yaml").read_text(encoding="utf-8"))
    rates: dict[str, Any] = {"origin": ORIGIN}
    for gpu, architecture in (("h100", "hopper"), ("a100", "ampere")):
        timed = product_rates(gpu)
        error = errors(timed, constants_for(architecture, "tensor"))
        short = np.array([kernel.seconds < SHORT_S for kernel in timed])
        for name, those in ((f"{gpu}, 20 us and longer", ~short), (f"{gpu}, shorter", short)):
            rates |= {name: summary(error[those])} if those.any() else {}
    for part in ("fitted", "left_out"):
        for name in [each for each in scores[part] if "tensor, products" in each]:
            del scores[part][name]
    write("kernel_errors.yaml", ERRORS_HEADER, {**scores, "published_rates": rates})


if __name__ == "__main__":
    main()
