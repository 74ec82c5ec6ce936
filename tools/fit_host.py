"""Fits how long Megatron's host needs to issue a layer, and scores it: iterations of GPTs on the A100 of one host.

    python tools/fit_host.py single_host_half.csv

The file is a table of VIA-Research/vTrain (commit f8dda847, MIT): iterations of Megatron-LM on 2, 4 and 8 A100, by
features, layers, batches and degrees. One factor on the issue times of `megatron.yaml` is fitted to the odd rows and
scored on the even ones. It is fitted again to the rows of 2,048 features, and scored on those of 1,024.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from clustersim import load_scenario, simulate
from clustersim.hardware import CPUS

FACTORS = (0.9, 1.0, 1.1)


class Row(NamedTuple):
    """A row of the table: numbers of GPUs, samples, features, layers, degrees, and milliseconds."""

    number: int
    num_gpus: int
    batch: int
    micro_batch: int
    features: int
    heads: int
    layers: int
    tokens: int
    tensor: int
    data: int
    pipeline: int
    milliseconds: float

    @property
    def num_micro_batches(self) -> int:
        return self.batch // self.micro_batch // self.data


def read(path: str) -> list[Row]:
    """Return the rows of the file, numbered from 1."""
    with open(path, encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    return [Row._make((number, *map(int, row[:-1]), float(row[-1]))) for number, row in enumerate(rows, start=1)]


def forecast_s(row: Row, cpu: str) -> float:
    """Return the forecast seconds of an iteration on a host with this CPU."""
    scenario = {
        "name": "one-host",
        "model": f"gpt-{row.layers}x{row.features}x{row.heads}-seq{row.tokens}",
        "num_gpus": row.num_gpus,
        "batch": {"global": row.batch},
        "topology": {
            "kind": "star", "num_hosts": 1, "link": "infiniband-hdr", "hop": "600 ns",
            "host": {"template": "dgx-a100", "cpu": cpu},
        },
        "software": {"name": "plain", "library": "megatron", "host": "megatron", "balance": "blocks"},
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "overlap": False},
        "parallelism": {
            "tensor": row.tensor, "pipeline": row.pipeline, "micro_batches": row.num_micro_batches,
            "recompute": "full",
        },
        "precision": "amp-fp16",
        "optimizer": "adam",
        "memory_check": False,
    }  # fmt: skip
    return simulate(load_scenario(scenario)).iteration_s


def all_errors(rows: Sequence[Row], factor: float) -> np.ndarray:
    """Return forecast / measured - 1 of rows [num_rows], with a host that takes `factor` times its sheet's time."""
    sheet = CPUS.find("epyc-7742").read_text(encoding="utf-8")
    sheet = sheet.replace("name: epyc-7742", "name: scaled").replace(
        "issue_factor:\n  value: 1", f"issue_factor:\n  value: {factor}"
    )
    with TemporaryDirectory() as folder, ProcessPoolExecutor() as pool:
        path = Path(folder) / "scaled.yaml"
        path.write_text(sheet, encoding="utf-8")
        seconds = pool.map(partial(forecast_s, cpu=str(path)), rows, chunksize=8)
        return np.array([1e3 * each / row.milliseconds - 1 for each, row in zip(seconds, rows, strict=True)])


def told(name: str, found: np.ndarray) -> str:
    """Return a row of the table of errors."""
    sizes = f"{np.median(abs(found)):.1%} | {np.quantile(abs(found), 0.9):.1%} | {np.median(found):+.1%}"
    return f"| {name} | {len(found)} | {sizes} |"


def main(path: str) -> None:
    """Print the fitted factors, and the errors on the rows they were fitted to and on the others."""
    rows = read(path)
    known = {factor: all_errors(rows, factor) for factor in FACTORS}
    numbers, features = (np.array([getattr(row, name) for row in rows]) for name in ("number", "features"))
    parts = {
        "odd rows": numbers % 2 == 1,
        "even rows": numbers % 2 == 0,
        "2,048 features": features == 2048,
        "1,024 features": features == 1024,
    }

    def fitted(part: str) -> float:
        return min(FACTORS, key=lambda factor: float(np.median(abs(known[factor][parts[part]]))))

    print("| rows | number | median | nine in ten | bias |\n|---|---|---|---|---|")
    for fit, score in (("odd rows", "even rows"), ("2,048 features", "1,024 features")):
        factor = fitted(fit)
        print(told(f"{fit}, fitted: factor {factor:g}", known[factor][parts[fit]]))
        print(told(f"{score}, scored", known[factor][parts[score]]))
    scored, found = parts["even rows"] & parts["1,024 features"], known[fitted("odd rows")]
    print(told("even rows of 1,024 features", found[scored]))
    for name in ("micro_batch", "tensor", "pipeline"):
        column = np.array([getattr(row, name) for row in rows])
        for value in np.unique(column[scored]).tolist():
            print(told(f"of these, {name.replace('_', ' ')} {value}", found[scored & (column == value)]))


if __name__ == "__main__":
    main(sys.argv[1])
