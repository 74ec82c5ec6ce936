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
from functools import partial
from typing import NamedTuple

import numpy as np

from clustersim.scenario import load_scenario
from clustersim import simulate
from clustersim.software import load_software, software_of


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
    return [Row(number, *map(int, row[:-1]), float(row[-1])) for number, row in enumerate(rows, start=1)]


def forecast_s(row: Row, cpu: str) -> float:
    """Return the forecast seconds of an iteration on a host with this CPU."""
    scenario = {
        "name": "one-host",
        "model": f"gpt-{row.layers}x{row.features}x{row.heads}-seq{row.tokens}",
        "num_gpus": row.num_gpus,
        "batch": {"global": row.batch},
        "topology": {"kind": "star", "num_hosts": 1, "link": "infiniband-hdr", "hop": "600 ns", "host": {"template": "dgx-a100", "cpu": cpu}},
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "overlap": False},
        "parallelism": {
            "tensor": row.tensor, "pipeline": row.pipeline, "micro_batches": row.num_micro_batches,
            "recompute": "full", "balance": "blocks",
        },
        "compute": {"library": "megatron"},
        "precision": "amp-fp16",
        "optimizer": "adam",
        "memory_check": False,
    }  # fmt: skip
    return simulate(load_scenario(scenario)).iteration_s
