"""Fits rates of fused attention to NVIDIA's published tables, and prints them for `attention_rates.py`.

    python tools/attention_fit.py aiconfigurator_core/systems/data [SIMUMAX]

The rows are forward passes of whole sequences behind a causal mask, in bfloat16 with a cache of bfloat16, of kernels
that are not Triton's. They include the write of keys and values to the cache, and what prepares it: seconds for it,
and bytes, are fitted too and dropped. Fitted: half of the shapes by a hash. Scored: the other half, and TensorRT-LLM's
table, which includes rotary embeddings. On Ampere and Hopper the limits are those of published charts, and only the
tail is fitted. SIMUMAX has shares of attention by the wall clock, of which only backward over forward is taken.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kernel_tables import GPUS, half_of, read_columns

from clustersim.kernels.attention_rates import AMPERE, HOPPER, QUERIES, REFERENCE_BLOCKS

WIDTHS = (64, 128)
COLUMNS = {
    "batch": "batch_size", "tokens": "isl", "heads": "num_heads", "shared": "num_key_value_heads", "width": "head_dim",
    "seconds": "latency",
}  # fmt: skip
A100_VERSIONS = {"sglang": "0.5.10", "vllm": "0.14.0", "trtllm": "1.0.0"}
VERSIONS = {"sglang": "0.5.14", "vllm": "0.24.0", "trtllm": "1.3.0rc20"}
FITTED = {
    "a100_sxm": ("sglang", "vllm"),
    "h100_sxm": ("sglang", "vllm"),
    "b200_sxm": ("sglang", "vllm"),
    "l40s": ("vllm",),
    "rtx_pro_6000_server": ("vllm",),
}
"""Libraries that each GPU is fitted on. On Ada and consumer Blackwell only vLLM runs FlashAttention-2."""
OTHERS = {"h100_sxm": ("h200_sxm",), "b200_sxm": ("gb200", "b300_sxm")}
CHARTS = {"a100_sxm": (AMPERE[2], 312e12), "h100_sxm": (HOPPER[3], 989.4e12)}
NUM_ROWS = 4000
LINEAR_FROM = 0.1
FIRST_TOKENS = 16


@dataclass(frozen=True)
class Passes:
    """Timed forward passes, arrays of [num_passes]."""

    batch: np.ndarray
    tokens: np.ndarray
    heads: np.ndarray
    shared: np.ndarray
    width: np.ndarray
    seconds: np.ndarray

    def where(self, chosen: np.ndarray) -> Passes:
        return Passes(**{name: each[chosen] for name, each in vars(self).items()})

    @property
    def half(self) -> np.ndarray:
        return half_of(self.batch, self.heads, self.tokens, self.shared)


class Found(NamedTuple):
    """Limits as shares of the peak and tokens that reach half of it, by width; the tail; what the cache costs."""

    limits: tuple[float, float]
    halves: tuple[float, float]
    tail: float
    fixed_s: float
    cache_elements: float


def read_passes(folder: Path, gpu: str, library: str) -> Passes:
    """Return the forward passes of one table with heads of 64 or 128 features."""
    version = (A100_VERSIONS if gpu == "a100_sxm" else VERSIONS)[library]
    path = folder / gpu / "attention" / library / version / "context_attention_perf.parquet"
    names = [*COLUMNS.values(), "attn_dtype", "kv_cache_dtype", "window_size", "kernel_source"]
    columns = read_columns(path, names)
    chosen = (columns["attn_dtype"] == "bfloat16") & (columns["kv_cache_dtype"] == "bfloat16")
    chosen &= (columns["kernel_source"] != "triton") & np.isin(columns["head_dim"], WIDTHS)
    chosen &= columns["isl"] >= FIRST_TOKENS
    if "window_size" in columns:
        chosen &= columns["window_size"] == 0
    passes = Passes(**{name: columns[column][chosen].astype(float) for name, column in COLUMNS.items()})
    return Passes(**{**vars(passes), "seconds": passes.seconds * 1e-3})


def seconds_of(found: Found, passes: Passes, gpu: str) -> np.ndarray:
    """Return the seconds of each pass, with the write to the cache, [num_passes]."""
    sheet, wide = GPUS[gpu], passes.width == WIDTHS[1]
    limit, half = (np.where(wide, values[1], values[0]) for values in (found.limits, found.halves))
    flop = 2.0 * passes.batch * passes.heads * passes.width * passes.tokens**2
    blocks = np.ceil(passes.tokens / QUERIES)
    longest = 2 * blocks / (blocks + 1)
    fewer = np.maximum(0.0, 1 / (passes.batch * passes.heads * blocks) - 1 / REFERENCE_BLOCKS)
    tail = 1 + found.tail * sheet.num_multiprocessors * longest * fewer
    compute_s = flop / (limit * sheet.flop_per_s) * (1 + half / passes.tokens) * tail
    elements = 2 * passes.heads + 2 * passes.shared * (1 + found.cache_elements)
    memory_s = 2 * passes.batch * passes.tokens * passes.width * elements / (0.85 * sheet.memory_bytes_per_s)
    result: np.ndarray = found.fixed_s + np.hypot(compute_s, memory_s)
    return result


def fit_passes(passes: Passes, gpu: str) -> Found:
    """Return the rates of a GPU; its limits are those of the charts, where there are any."""
    from scipy.optimize import least_squares

    chart = CHARTS.get(gpu)
    start = [0.4, 8e-6, 2.0] if chart else [0.4, 8e-6, 2.0, 0.4, 0.5, 300.0, 300.0]

    def made(values: np.ndarray) -> Found:
        tail, fixed_s, elements, *rest = np.exp(values).tolist()
        if chart:
            rates = [_masked(chart[0][width]) for width in WIDTHS]
            limits = tuple(limit * 1e12 / chart[1] for limit, _ in rates)
            return Found(limits, tuple(half for _, half in rates), tail, fixed_s, elements)  # type: ignore[arg-type]
        return Found((rest[0], rest[1]), (rest[2], rest[3]), tail, fixed_s, elements)

    def residuals(values: np.ndarray) -> np.ndarray:
        result: np.ndarray = np.log(seconds_of(made(values), passes, gpu) / passes.seconds)
        return result

    return made(least_squares(residuals, np.log(start), loss="soft_l1", f_scale=LINEAR_FROM, max_nfev=80).x)


def _masked(rates: object) -> tuple[float, float]:
    rate = rates.masked  # type: ignore[attr-defined]
    return rate.limit, rate.half


def _sample(passes: Passes, count: int) -> Passes:
    return passes.where(np.sort(np.random.default_rng(0).permutation(len(passes.tokens))[:count]))


def fitted(folder: Path, gpu: str) -> Found:
    """Return the rates of a GPU, fitted to the even shapes of its libraries."""
    parts = []
    for library in FITTED[gpu]:
        passes = read_passes(folder, gpu, library)
        parts.append(_sample(passes.where(passes.half == 0), NUM_ROWS // len(FITTED[gpu])))
    names = vars(parts[0])
    return fit_passes(Passes(**{name: np.concatenate([vars(each)[name] for each in parts]) for name in names}), gpu)


def line(name: str, found: Found, passes: Passes, gpu: str) -> str:
    """Return a row of the Markdown table: median and ninth decile of the factor less 1, and the signed bias."""
    error = np.log(seconds_of(found, passes, gpu) / passes.seconds)
    blocks = passes.batch * passes.heads * passes.tokens / QUERIES
    large = (passes.tokens >= 1024) & (blocks >= 4 * GPUS[gpu].num_multiprocessors)
    cells = []
    for chosen in (np.full(len(error), True), large, ~large & (passes.seconds > 30e-6), passes.seconds <= 30e-6):
        size = np.expm1(np.abs(error[chosen]))
        cells.append(f"{np.median(size):.1%}, {np.quantile(size, 0.9):.0%} ({np.median(error[chosen]):+.1%})")
    return f"| {name} | {' | '.join(cells)} |"


def backward_ratios(path: Path) -> list[tuple[str, float]]:
    """Return the share of the peak backward over that forward, by shape."""
    shares: dict[str, dict[str, float]] = {"sdp_fwd": {}, "sdp_bwd": {}}
    with path.open(encoding="utf-8", newline="") as lines:
        for key, value in csv.reader(lines):
            parts = key.split("/")
            if len(parts) > 4 and parts[2] in shares:
                shares[parts[2]][parts[4]] = float(value)
    return [(shape, shares["sdp_bwd"][shape] / share) for shape, share in shares["sdp_fwd"].items()]


def report(folder: Path) -> Mapping[str, Found]:
    """Fit every GPU, print its rates and its errors, and return the rates."""
    laws = {gpu: fitted(folder, gpu) for gpu in FITTED}
    print("| attention forward | all | long and many | fewer blocks | up to 30 us |\n|---|---|---|---|---|")
    for gpu, found in laws.items():
        for library in VERSIONS:
            passes = read_passes(folder, gpu, library)
            if library in FITTED[gpu]:
                print(
                    line(
                        f"{gpu}, {library}, **half of the shapes** (fitted)", found, passes.where(passes.half == 0), gpu
                    )
                )
                print(line(f"{gpu}, {library}, the other half", found, passes.where(passes.half == 1), gpu))
            else:
                print(line(f"{gpu}, {library}", found, passes, gpu))
        for other in OTHERS.get(gpu, ()):
            for library in FITTED[gpu]:
                print(line(f"{other}, {library}, by {gpu}'s rates", found, read_passes(folder, other, library), other))
    for gpu, found in laws.items():
        limits = [round(share * GPUS[gpu].flop_per_s / 1e12) for share in found.limits]
        print(
            f"{gpu}: TFLOP/s {limits}, half {[round(each) for each in found.halves]}, tail {found.tail:.3f}, ", end=""
        )
        print(f"dropped {found.fixed_s * 1e6:.1f} us and {found.cache_elements:.1f} elements of the cache")
    return laws


if __name__ == "__main__":
    report(Path(sys.argv[1]))
    for name in ("a100_pcie", "b200_bf16_ceperm") if len(sys.argv) > 2 else ():
        for shape, ratio in backward_ratios(Path(sys.argv[2]) / f"{name}.csv"):
            print(f"{name}, {shape}: backward over forward {ratio:.3f}")
