"""Scores the law of dense products on grouped products of experts, to which nothing was fitted.

    python tools/grouped_scores.py aiconfigurator_core/systems/data [SIMUMAX]

A row of `moe_perf.parquet` is a layer of experts on one GPU, of balanced loads: both grouped products, the gated
activation between them, and the sum over the experts of a token. The law has each grouped product as one kernel of as
many products as experts have tokens; the other operations move bytes. SIMUMAX has grouped products on a B200 and an
A100 PCIe by the wall clock: of those only the ratio to plain products there is taken.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import numpy as np
from kernel_tables import GPUS, TableGpu, read_columns
from table_fit import _LAYOUT_GPUS, CHIPS, Law, stored_laws

from clustersim.kernels.tensor_products import Shapes, product_seconds

TABLES = {
    "a100_sxm": ("sglang", "0.5.10", ("sglang_fused_moe_triton",)),
    "h100_sxm": ("trtllm", "1.3.0rc20", ("moe_torch_flow_cutlass",)),
    "b200_sxm": ("vllm", "0.24.0", ("vllm_unquantizedfusedmoe_flashinfer_trtllm_trtllmbf16experts",)),
    "l40s": ("sglang", "0.5.14", ("sglang_fused_moe_triton",)),
}
CLASSES = ((1, 16), (16, 64), (64, 256), (256, 1024), (1024, 10**9))
"""Tokens an expert, from and below."""
_STREAMED = 0.85  # of the memory rate, for the activation and the sum


def grouped_s(
    law: Law, gpu: TableGpu, count: np.ndarray, m: np.ndarray, n: np.ndarray, k: np.ndarray, result_bytes: float = 2.0
) -> np.ndarray:
    """Return the seconds of one kernel of `count` products of m columns and n rows each, [num_kernels]."""
    num_bytes = count * (2.0 * k * (m + n) + result_bytes * m * n)
    rate = np.full_like(num_bytes, law.share * gpu.flop_per_s / gpu.num_multiprocessors)
    shapes = Shapes(n, m, k, count, num_bytes, rate)
    body = product_seconds(shapes, gpu.memory_bytes_per_s, gpu.num_multiprocessors, law.constants)
    result: np.ndarray = body + law.constants.kernel_s
    return result


def table_line(folder: Path, gpu: str, law: Law) -> str:
    """Return a row of the Markdown table: median of the factor less 1 and signed bias, by tokens an expert."""
    library, version, sources = TABLES[gpu]
    path = folder / gpu / "moe" / library / version / "moe_perf.parquet"
    sizes = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "latency")
    columns = read_columns(path, ("kernel_source", "moe_dtype", "distribution", *sizes))
    chosen = (columns["moe_dtype"] == "bfloat16") & (columns["distribution"] == "balanced")
    chosen &= np.isin(columns["kernel_source"], sources) & (columns["moe_ep_size"] == 1)
    tokens, hidden, between, routed, experts, split, _, milliseconds = (
        columns[name][chosen].astype(float) for name in sizes
    )
    each, between, sheet = tokens * routed / experts, between / split, GPUS[gpu]
    into = grouped_s(law, sheet, experts, np.maximum(each, 1.0), 2 * between, hidden)
    out = grouped_s(law, sheet, experts, np.maximum(each, 1.0), hidden, between)
    moved = 2 * tokens * routed * (3 * between + 2 * hidden) / (_STREAMED * sheet.memory_bytes_per_s)
    error = np.log((into + out + moved) / (milliseconds * 1e-3))
    cells = []
    for low, high in CLASSES:
        part = error[(each >= low) & (each < high)]
        cells.append(f"{np.median(np.expm1(np.abs(part))):.0%} ({np.median(part):+.0%})" if len(part) else "-")
    return f"| {gpu}, {library} {version} | {' | '.join(cells)} |"


def wall_clock_lines(folder: Path, laws: dict[str, Law], plain: dict[str, float]) -> list[str]:
    """Return measured over model of grouped products, over `plain` of plain ones, by stage and tokens an expert."""
    pattern = re.compile(
        r"op/group_matmul/.*/ng=(\d+), M=(\d+), N=(\d+), K=(\d+), .*main_grad_dtype=(\w+), stage=(\w+), "
    )
    lines = []
    for name, (chip, gpu) in _LAYOUT_GPUS.items():
        found: dict[str, list[tuple[float, float]]] = {}
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as rows:
            for key, value in csv.reader(rows):
                match = pattern.search(key)
                if match:
                    count, m, n, k = (np.array([float(size)]) for size in match.groups()[:4])
                    measured_s = 2 * count * m * n * k / (float(value) * gpu.flop_per_s)
                    columns, rows_of, inner = {"fwd": (m, n, k), "bwd_grad_act": (m, k, n), "bwd_grad_w": (k, n, m)}[
                        match[6]
                    ]
                    added = {"fp32": 8.0, "bf16": 4.0}[match[5]] if match[6] == "bwd_grad_w" else 2.0
                    model_s = grouped_s(laws[chip], gpu, count, columns, rows_of, inner, added)
                    ratio = float((measured_s / model_s)[0])
                    found.setdefault(match[6], []).append((float(m[0]), ratio / plain[chip]))
        for stage, pairs in found.items():
            for low, high in CLASSES:
                part = [ratio for m, ratio in pairs if low <= m < high]
                if part:
                    lines.append(f"{name}, {stage}, {low} to {high} tokens: {np.median(part):.2f} ({len(part)})")
    return lines


def main(tables: Path, layouts: Path | None) -> None:
    """Print both tables."""
    from table_fit import plain_ratio

    laws = stored_laws()
    names = [f"{low} to {high}" if high < 10**9 else f"{low} and more" for low, high in CLASSES]
    print(f"| tokens an expert | {' | '.join(names)} |\n|---|{'---|' * len(CLASSES)}")
    chip_of = {gpu: chip for chip, (gpu, _) in CHIPS.items()}
    for gpu in TABLES:
        print(table_line(tables, gpu, laws[chip_of[gpu]]))
    if layouts:
        print("\n".join(wall_clock_lines(layouts, laws, plain_ratio(layouts, laws))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
