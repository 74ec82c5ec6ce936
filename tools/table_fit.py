"""Fits the law of dense products on tensor cores to NVIDIA's published tables, and scores it on other ones.

    python tools/fit_kernels.py --tables aiconfigurator_core/systems/data [--layouts simumax]

Fitted: products of bfloat16 of two libraries that call PyTorch's linear (SGLang, vLLM), of the shapes whose hash is
even. Scored: the odd shapes of the same tables, a third library (TensorRT-LLM), the next GPU with the same chip (H200
by H100's constants; GB200 and B300 by B200's). Errors count linearly from 10 % on. In 8 and 4 bits only the share of
the peak is fitted, beside the cast of the input, which those rows include. `--layouts` has SimuMax's shares of products
on an A100 PCIe and a B200, which were timed by the wall clock: only ratios between layouts are taken from them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chip_fit import summary
from kernel_tables import FORMATS, GPUS, RELEASE, Products, TableGpu, classes, half_of, read_products
from ruamel.yaml import YAML
from write_fit import ERRORS_HEADER, HEADER, KERNELS, SOURCE, rounded, write

from clustersim.kernels.kernel_constants import constants_for, fit_document
from clustersim.kernels.kernel_model import PHASES
from clustersim.kernels.tensor_products import ProductConstants, Shapes, product_seconds

CHIPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ga100-tensor": ("a100_sxm", ()),
    "gh100-tensor": ("h100_sxm", ("h200_sxm",)),
    "gb100-tensor": ("b200_sxm", ("gb200", "b300_sxm")),
    "ad102-tensor": ("l40s", ()),
    "gb202-tensor": ("rtx_pro_6000_server", ()),
}
"""By chip: the GPU that it is fitted on, and those that it is scored on."""

_NEW = (("sglang", "0.5.14"), ("vllm", "0.24.0"), ("trtllm", "1.3.0rc20"))
LIBRARIES: Mapping[str, tuple[tuple[str, str], ...]] = {
    gpu: (("sglang", "0.5.10"), ("vllm", "0.14.0"), ("trtllm", "1.0.0")) if gpu == "a100_sxm" else _NEW for gpu in GPUS
}
FITTED_LIBRARIES = 2  # of each GPU, the first ones
CAST_LIBRARY = 2  # TensorRT-LLM calls cuBLAS in 8 bits, as torch does; the others call kernels of their own
NUM_ROWS = 3000  # of each library in a fit
LINEAR_FROM = 0.1
CHUNK = 4000

FREE: Mapping[str, tuple[float, float, float]] = {
    "share": (0.75, 0.3, 1.0),
    "kernel_s": (2.5e-6, 5e-7, 6e-6),
    "split_s": (2e-6, 1e-7, 6e-6),
    "step_s": (1.5e-9, 1e-10, 1e-8),
    "tile_half": (5.0, 1e-2, 100.0),
    "whole_waves": (0.5, 1e-3, 1.0),
    "overlap": (2.5, 1.5, 8.0),
    "memory_efficiency": (0.85, 0.5, 1.0),
    "near_ratio": (1.5, 1.0, 8.0),
    "near_share": (0.5, 0.15, 1.0),
}
"""What is fitted: start, lower and upper bound. `near_ratio` is the cache's rate over the memory's, `near_share` the
share of the cache that keeps operands."""


class Law(NamedTuple):
    """One chip's share of the peak and the constants of its products."""

    share: float
    constants: ProductConstants


def seconds_of(law: Law, products: Products, gpu: TableGpu, dtype: str = "bfloat16") -> np.ndarray:
    """Return the seconds of each product, TN, by the law, [num_products]."""
    size, gain = FORMATS[dtype], gpu.gains.get(dtype, 1.0)
    rate = law.share * gain * gpu.flop_per_s / gpu.num_multiprocessors
    parts = []
    for first in range(0, len(products.m), CHUNK):
        m, n, k, _ = products.where(np.arange(first, min(first + CHUNK, len(products.m))))
        num_bytes = size * k * (m + n) + 2.0 * m * n
        shapes = Shapes(n, m, k, np.ones_like(m), num_bytes, np.full_like(m, rate))
        parts.append(product_seconds(shapes, gpu.memory_bytes_per_s, gpu.num_multiprocessors, law.constants))
    result: np.ndarray = np.concatenate(parts) + law.constants.kernel_s
    return result


def errors(law: Law, products: Products, gpu: TableGpu, dtype: str = "bfloat16") -> np.ndarray:
    """Return log(model / measured) of each product."""
    result: np.ndarray = np.log(seconds_of(law, products, gpu, dtype) / products.seconds)
    return result


def fit_law(products: Products, gpu: TableGpu) -> Law:
    """Return the law fitted to products of 16 bits."""
    from scipy.optimize import least_squares

    names = list(FREE)
    start, lower, upper = np.log(np.array(list(FREE.values()))).T

    def made(values: np.ndarray) -> Law:
        found = dict(zip(names, np.exp(values).tolist(), strict=True))
        share, ratio, kept = (found.pop(name) for name in ("share", "near_ratio", "near_share"))
        near = ratio * found["memory_efficiency"] * gpu.memory_bytes_per_s
        return Law(share, ProductConstants(**found, near_bytes_per_s=near, near_bytes=kept * gpu.cache_bytes))

    def residuals(values: np.ndarray) -> np.ndarray:
        return errors(made(values), products, gpu)

    solution = least_squares(
        residuals,
        start,
        bounds=(lower, upper),
        loss="soft_l1",
        f_scale=LINEAR_FROM,
        diff_step=np.array(1e-3),
        max_nfev=80,
    )
    law = made(solution.x)
    numbers = {name: value for name, value in asdict(law.constants).items() if value is not None}
    return Law(rounded({"share": law.share})["share"], ProductConstants(**rounded(numbers)))


def fit_cast(law: Law, products: Products, gpu: TableGpu, dtype: str) -> tuple[float, np.ndarray]:
    """Return the share of the peak in 8 or 4 bits over that in 16, and the errors on the shapes not fitted.

    The rows include the cast of x: seconds for it, and bytes of each of its elements, are fitted too and dropped.
    """
    from scipy.optimize import least_squares

    half = half_of(*products[:3])
    seen = _sample(products.where(half == 0), NUM_ROWS)
    start = np.log([0.9, 1e-5, 4.0, law.constants.step_s])

    def error(values: np.ndarray, part: Products) -> np.ndarray:
        ratio, fixed_s, cast_bytes, step_s = np.exp(values)
        narrow = Law(law.share * ratio, replace(law.constants, step_s=float(step_s), kernel_s=0.0))
        cast_s = fixed_s + cast_bytes * part.m * part.k / (law.constants.memory_efficiency * gpu.memory_bytes_per_s)
        result: np.ndarray = np.log((seconds_of(narrow, part, gpu, dtype) + cast_s) / part.seconds)
        return result

    def residuals(values: np.ndarray) -> np.ndarray:
        return error(values, seen)

    solution = least_squares(residuals, start, loss="soft_l1", f_scale=LINEAR_FROM)
    return float(np.exp(solution.x[0])), error(solution.x, products.where(half == 1))


def _sample(products: Products, count: int) -> Products:
    rows = np.random.default_rng(0).permutation(len(products.m))[:count]
    return products.where(np.sort(rows))


def _joined(*parts: Products) -> Products:
    return Products(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def fitted_law(folder: Path, gpu: str) -> Law:
    """Return the law of one GPU, fitted to the even shapes of the first libraries."""
    parts = []
    for library, version in LIBRARIES[gpu][:FITTED_LIBRARIES]:
        products = read_products(folder, gpu, library, version)
        parts.append(_sample(products.where(half_of(*products[:3]) == 0), NUM_ROWS))
    return fit_law(_joined(*parts), GPUS[gpu])


class Score(NamedTuple):
    """Errors of one part of a table, by class."""

    gpu: str
    library: str
    is_fitted: bool
    part: str
    errors: Mapping[str, np.ndarray]


def scores(folder: Path, chip: str, law: Law) -> Iterator[Score]:
    """Yield the errors on every table of a chip: the fitted half of two libraries, and everything else."""
    fitted, others = CHIPS[chip]
    for gpu in (fitted, *others):
        for number, (library, version) in enumerate(LIBRARIES[gpu]):
            products = read_products(folder, gpu, library, version)
            error = errors(law, products, GPUS[gpu])
            name = f"{library} {version}"
            by_class = classes(products)
            if gpu == fitted and number < FITTED_LIBRARIES:
                half = half_of(*products[:3])
                for which, part in ((0, "half of the shapes"), (1, "the other half")):
                    those = {each: error[chosen & (half == which)] for each, chosen in by_class.items()}
                    yield Score(gpu, name, which == 0, part, those)
            else:
                part = "all shapes" if gpu == fitted else f"all shapes, by {fitted}'s constants"
                yield Score(gpu, name, False, part, {each: error[chosen] for each, chosen in by_class.items()})


_FLOP_PER_S = {"a100_pcie": 312e12, "b200_bf16_ceperm": 2250e12}
_LAYOUT_GPUS = {
    "a100_pcie": ("ga100-tensor", TableGpu(312e12, 1.935e12, 108, 40e6, {})),
    "b200_bf16_ceperm": ("gb100-tensor", GPUS["b200_sxm"]),
}


def layout_ratios(folder: Path, laws: Mapping[str, Law]) -> dict[str, dict[str, tuple[float, int]]]:
    """Return the median of measured over model of each layout, over that of TN, by chip, and how many products.

    A gradient of weights is added to sums: in fp32 an output is 8 bytes, in 16 bits 4.
    """
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for chip, ratios in _ratios(folder, laws).items():
        plain = float(np.median(ratios["TN bf16"]))
        found[chip] = {key: (float(np.median(each)) / plain, len(each)) for key, each in ratios.items()}
    return found


def plain_ratio(folder: Path, laws: Mapping[str, Law]) -> dict[str, float]:
    """Return the median of measured over model of TN, by chip: what the wall clock and the program add."""
    return {chip: float(np.median(ratios["TN bf16"])) for chip, ratios in _ratios(folder, laws).items()}


def _ratios(folder: Path, laws: Mapping[str, Law]) -> dict[str, dict[str, list[float]]]:
    """Return measured over model of every product, by chip and layout."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, (chip, gpu) in _LAYOUT_GPUS.items():
        ratios = found.setdefault(chip, {})
        for layout, bits, m, n, k, share in _layout_rows(folder / f"{name}.csv"):
            law, flop = laws[chip], 2.0 * m * n * k
            added = {"fp32": 8.0, "bf16": 4.0}[bits] if layout == "NT" else 2.0
            num_bytes = 2.0 * k * (m + n) + added * m * n
            rate = law.share * gpu.flop_per_s / gpu.num_multiprocessors
            shapes = Shapes(*(np.array([each]) for each in (n, m, k, 1.0, num_bytes, rate)))
            model_s = product_seconds(shapes, gpu.memory_bytes_per_s, gpu.num_multiprocessors, law.constants)
            measured_s = flop / (share * _FLOP_PER_S[name])
            ratios.setdefault(f"{layout} {bits}", []).append(measured_s / (float(model_s[0]) + law.constants.kernel_s))
    return found


def _layout_rows(path: Path) -> Iterator[tuple[str, str, float, float, float, float]]:
    """Yield layout, output format, m, n, k and share of the peak of every product of at least 0.1 ms at the peak."""
    pattern = re.compile(r"op/matmul/.*/b=1, m=(\d+), k=(\d+), n=(\d+), layout=(\w+), .*out_dtype=(\w+)")
    with path.open(encoding="utf-8", newline="") as lines:
        for key, value in csv.reader(lines):
            found = pattern.search(key)
            if found:
                m, k, n = (float(size) for size in found.groups()[:3])
                if 2 * m * n * k / _FLOP_PER_S[path.stem] > 1e-4:
                    yield found[4], found[5], m, n, k, float(value)


def _stored(name: str) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe", pure=True).load((KERNELS / name).read_text(encoding="utf-8"))
    return document


def restore(laws: Mapping[str, Law], tables: Mapping[str, Any]) -> None:
    """Write laws and their errors back into both files, after all else was fitted anew."""
    document, stored = _stored("kernel_fit.yaml"), _stored("kernel_errors.yaml")
    put_products(document, laws)
    write("kernel_fit.yaml", HEADER, document)
    write("kernel_errors.yaml", ERRORS_HEADER, {**stored, "tables": tables})
    fit_document.cache_clear()
    constants_for.cache_clear()


def errors_of_tables() -> dict[str, Any]:
    """Return the errors that `kernel_errors.yaml` has of the tables."""
    errors: dict[str, Any] = _stored("kernel_errors.yaml")["tables"]
    return errors


def main(tables: Path, layouts: Path | None) -> None:
    """Fit, score, write both files, and print the residuals as Markdown."""
    document, stored = _stored("kernel_fit.yaml"), _stored("kernel_errors.yaml")
    laws = {chip: fitted_law(tables, gpu) for chip, (gpu, _) in CHIPS.items()}
    lines = ["| GPU | library | part | all | small | under 10 us | large |", "|---|---|---|---|---|---|---|"]
    stored["tables"] = {"fitted": {}, "scored": {}}
    for chip, (gpu, _) in CHIPS.items():
        for score in scores(tables, chip, laws[chip]):
            where = stored["tables"]["fitted" if score.is_fitted else "scored"]
            for name, error in score.errors.items():
                where[f"{score.gpu}, {score.library}, {score.part}, {name}"] = summary(error)
            lines.append(_line(score))
        narrow, said = _narrow(tables, gpu, laws[chip])
        lines += said
        laws[chip] = Law(laws[chip].share, replace(laws[chip].constants, **narrow))
    print("\n".join(lines))
    if layouts:
        for chip, ratios in layout_ratios(layouts, laws).items():
            said = [f"{key} {ratio:.3f} ({count})" for key, (ratio, count) in ratios.items()]
            print(f"{chip}, measured over model relative to TN: {', '.join(said)}")
    put_products(document, laws)
    write("kernel_fit.yaml", HEADER, document)
    write("kernel_errors.yaml", ERRORS_HEADER, stored)
    fit_document.cache_clear()
    constants_for.cache_clear()


def stored_laws() -> dict[str, Law]:
    """Return the laws that `kernel_fit.yaml` has."""
    chips = fit_document()["chips"]
    return {
        chip: Law(chips[chip]["efficiency"]["matmul_forward"], ProductConstants(**chips[chip]["products"]))
        for chip in CHIPS
    }


def put_products(document: dict[str, Any], laws: Mapping[str, Law]) -> None:
    """Put the law of each chip into a fit's document; a chip without convolutions of its own has another chip's.

    All three phases have one share, since their layouts were found to take as long.
    """
    document["origin"]["tables"] = ORIGIN
    chips = document["chips"]
    for chip, law in laws.items():
        other = chips[BORROWED.get(chip, chip)]
        numbers = {name: value for name, value in asdict(law.constants).items() if value is not None}
        share = rounded({"share": law.share})["share"]
        gpu, _ = CHIPS[chip]
        libraries = " and ".join(f"{library} {version}" for library, version in LIBRARIES[gpu][:FITTED_LIBRARIES])
        products = f"plain products: {gpu} in {RELEASE}, half of the shapes of {libraries}"
        source = SOURCE[chip] if chip in SOURCE else f"convolutions assumed: {BORROWED[chip]}'s"
        chips[chip] = {
            **other,
            "source": f"{products}; {source}",
            "efficiency": {**other["efficiency"], **{f"matmul_{phase}": share for phase in PHASES}},
            "products": rounded(numbers),
        }


BORROWED = {"gb100-tensor": "gh100-tensor", "ad102-tensor": "ga100-tensor", "gb202-tensor": "ga100-tensor"}
"""Whose convolutions a chip has, where its own were not timed."""

ORIGIN = (
    f"{RELEASE}, systems/data: products of a100_sxm (SGLang 0.5.10, vLLM 0.14.0, TensorRT-LLM 1.0.0), h100_sxm, "
    "h200_sxm, b200_sxm, gb200, b300_sxm, l40s and rtx_pro_6000_server (SGLang 0.5.14, vLLM 0.24.0, TensorRT-LLM "
    "1.3.0rc20); ratios of layouts: MooreThreads/SimuMax, commit 4dcaae51, A100 PCIe and B200, Apache-2.0"
)


def _narrow(tables: Path, gpu: str, law: Law) -> tuple[dict[str, float], list[str]]:
    """Return the shares of 8 and 4 bits over that of 16, and their lines of the table."""
    library, version = LIBRARIES[gpu][CAST_LIBRARY]
    found: dict[str, float] = {}
    lines = []
    for dtype in GPUS[gpu].gains:
        products = read_products(tables, gpu, library, version, dtype)
        ratio, error = fit_cast(law, products, GPUS[gpu], dtype)
        found |= rounded({f"{dtype}_share": ratio})
        odd = products.where(half_of(*products[:3]) == 1)
        those = {name: error[chosen] for name, chosen in classes(odd).items()}
        lines.append(_line(Score(gpu, f"{library} {version}, {dtype}", False, "the other half, with casts", those)))
    return found, lines


def _line(score: Score) -> str:
    """Return one row of the Markdown table: median and ninth decile of the factor less 1, and the signed bias."""
    cells = []
    for error in score.errors.values():
        size = np.expm1(np.abs(error))
        cell = f"{np.median(size):.1%}, {np.quantile(size, 0.9):.0%} ({np.median(error):+.1%})" if len(error) else "-"
        cells.append(cell)
    part = f"**{score.part}** (fitted)" if score.is_fitted else score.part
    return f"| {score.gpu} | {score.library} | {part} | {' | '.join(cells)} |"
