"""Artificial run files with numbers from the simulator or a closed form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.simulate import time_collective

STORED = Path(__file__).parent / "real_run.json"
"""Three processes of one machine that pause instead of computing, over gloo; measured."""

CPU = {"name": "Some CPU", "kind": "cpu", "memory_bytes": 8e9}
H100 = {"name": "NVIDIA H100 80GB HBM3", "kind": "cuda", "memory_bytes": 85e9, "num_multiprocessors": 132}
LAYERS = ("fc6", "fc7", "fc8")
SIZES = (4096, 65536, 1048576, 16777216)


def star(num_ranks: int, rate: str = "1 GB/s", hop: str = "20 us") -> dict[str, Any]:
    """Return the cluster of a CPU run; any GPU sheet is fine, as nothing is computed."""
    return {"kind": "star", "num_hosts": num_ranks, "gpu": "v100", "link": rate, "hop": hop}


def all_reduce_s(num_ranks: int, num_bytes: float, transport: str = "gloo") -> float:
    """Return the time of an all-reduce there."""
    document = time_collective("all-reduce", star(num_ranks), "auto", num_ranks, [num_bytes], transport)
    return float(document["rows"][0]["time_s"])


def facts(num_ranks: int = 2, **other: Any) -> dict[str, Any]:
    """Return the facts of ranks on the CPU of one host."""
    rank = {"host": 0, "device": CPU, "memory_bytes_per_s": 9e11}
    ranks = [{**rank, "local_rank": number} for number in range(num_ranks)]
    return {"backend": "gloo", "ranks": ranks, "hosts": [{"num_cores": 64}], "software": {"torch": "2.13.0"}} | other


def gpu_facts(num_hosts: int, per_host: int, host: Mapping[str, Any], **other: Any) -> dict[str, Any]:
    """Return the facts of H100s, with a given number in each of some hosts."""
    ranks = [
        {"host": number, "local_rank": local, "device": H100, "memory_bytes_per_s": 2e12, "clock_error_s": 3e-5}
        for number in range(num_hosts)
        for local in range(per_host)
    ]
    return {"backend": "nccl", "ranks": ranks, "hosts": [dict(host)] * num_hosts, "software": {}} | other


def sweep(num_ranks: int = 2) -> dict[str, Any]:
    """Return the all-reduces of a run on `star`."""
    rows = [{"num_bytes": size, "time_s": all_reduce_s(num_ranks, size)} for size in SIZES]
    return {"name": "all-reduce", "kind": "all-reduce", "rows": rows}


def training(kind: str, name: str = "", **other: Any) -> dict[str, Any]:
    """Return a phase of training AlexNet."""
    return {
        "name": f"alexnet: {name or kind}",
        "kind": kind,
        "model": "alexnet",
        "batch": 4,
        "precision": "fp32",
    } | other


def compute(forward_s: float = 0.1, backward_s: float = 0.2, update_s: float = 0.01) -> dict[str, Any]:
    """Return a compute-only phase in which three layers share forward and backward evenly, and others take nothing."""
    layers = [
        {"name": name, "op": "fully-connected", "forward_s": 1.0, "backward_s": 1.0}
        if name in LAYERS
        else {"name": name, "op": "x", "forward_s": 0.0, "backward_s": 0.0}
        for name in _names()
    ]
    times = {"forward_s": forward_s, "backward_s": backward_s, "update_s": update_s}
    return training("compute", layers=layers, iteration_s=sum(times.values()), **times)


def _names() -> list[str]:
    from clustersim.model import load_workload

    return [layer.name for layer in load_workload("alexnet")[0].layers]


def spans(*rows: tuple[str, int, int, float, float]) -> dict[str, Any]:
    """Return spans of (kind, rank, iteration, start, end) by column."""
    names = ("kind", "rank", "iteration", "start_s", "end_s")
    return {**{name: [row[at] for row in rows] for at, name in enumerate(names)}, "name": [""] * len(rows)}


def document(*phases: Mapping[str, Any], **other: Any) -> dict[str, Any]:
    """Return a whole run file of these phases."""
    names = [phase["name"] for phase in phases]
    head = {"schema": "clustersim.real-run/1", "facts": facts(), "planned": names}
    return {**head, "phases": list(phases), "complete": True, **other}


def write(folder: Path, content: Mapping[str, Any] | str) -> Path:
    """Write a run file and return it."""
    path = folder / "run.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
