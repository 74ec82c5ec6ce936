"""Logs of collectives as anchors: the transport is fitted to them, and kernels after that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.results import Sweep
from clustersim.simulate import time_collective
from clustersim.simulate.transport_fit import CONSTANTS, Fit, FittedConstant, sheet_text

TOPOLOGY = {
    "kind": "star",
    "num_hosts": 2,
    "host": {"gpu": "v100", "num_gpus": 4},
    "link": "10 Gbit/s",
    "hop": "1 us",
}
SCENARIO: dict[str, Any] = {
    "model": "resnet50",
    "num_gpus": [4, 8],
    "batch": {"per_gpu": 32},
    "topology": TOPOLOGY,
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return the log of an all-reduce on all GPUs of a cluster whose NCCL is as quick as 0.8 of the links' rate."""
    slow, sheet = tmp_path / "slow.yaml", load_transport("nccl")
    after = replace(sheet, efficiency=0.8)
    constants = [
        FittedConstant(key, "", getattr(sheet, key), getattr(after, key), None, "held", "")
        for key in CONSTANTS
        if getattr(sheet, key) is not None
    ]
    slow.write_text(sheet_text(Fit(sheet, after, tuple(constants), ()), "slow", "two hosts"))
    sizes = [2.0**power for power in range(20, 29, 2)]
    rows = time_collective("all-reduce", TOPOLOGY, "auto", 8, sizes, str(slow))["rows"]
    ranks = "\n".join(
        f"#  Rank  {rank} Group  0 Pid   {rank} on  node-{rank // 4} device  {rank % 4} [0x1a] Tesla V100"
        for rank in range(8)
    )
    table = "\n".join(
        f" {row['num_bytes']:.0f} {row['num_bytes'] / 4:.0f} float sum -1 {1e6 * row['time_s']:.3f} 1.0 1.75 0"
        for row in rows
    )
    path = tmp_path / "all_reduce_perf.log"
    path.write_text(f"# nThread 1 nGpus 1\n{ranks}\n#  size count type redop root time algbw busbw #wrong\n{table}\n")
    return str(path)


def test_the_transport_is_fitted_and_the_forecast_follows(log: str) -> None:
    plain = clustersim.sweep(SCENARIO)
    sweep = clustersim.sweep({**SCENARIO, "measured": [{"collectives": log}]})
    anchor = sweep.runs[1].anchor
    assert anchor is not None
    assert anchor.network is not None
    assert anchor.points == ()
    assert anchor.network.constants["efficiency"][1] == pytest.approx(0.8, rel=0.01)
    assert anchor.network.median_abs_error < 0.01 < anchor.network.median_abs_error_without
    assert anchor.samples_per_s_without == plain.runs[1].samples_per_s
    assert sweep.runs[1].samples_per_s < plain.runs[1].samples_per_s
    assert "anchored" not in sweep.runs[1].provenance
    assert "fitted to 5 measured times of collectives" in sweep.assumptions[0]
    assert {run.transport for run in sweep.runs} == {"nccl-as-measured"}  # no folder, which each process has anew
    assert Sweep.from_dict(sweep.to_dict()).runs[1].anchor == anchor


def test_kernels_are_scaled_after_the_network(log: str) -> None:
    runs = [{"collectives": log}, {"num_gpus": 8, "samples_per_s": 1500}]
    sweep = clustersim.sweep({**SCENARIO, "measured": runs})
    alone = clustersim.sweep({**SCENARIO, "measured": runs[1:]})
    assert sweep.runs[1].samples_per_s == pytest.approx(1500, rel=1e-9)
    anchor, other = sweep.runs[1].anchor, alone.runs[1].anchor
    assert anchor is not None
    assert other is not None
    assert 1 < anchor.factor < other.factor
    again = clustersim.sweep({**SCENARIO, "measured": runs}, workers=2)
    assert [run.samples_per_s for run in again.runs] == [run.samples_per_s for run in sweep.runs]


def test_a_transport_without_constants_is_refused(log: str) -> None:
    with pytest.raises(InputError, match="got transport ideal"):
        clustersim.sweep({**SCENARIO, "transport": "ideal", "measured": [{"collectives": log}]})


def test_another_transport_keeps_its_constants(log: str) -> None:
    measured = [{"collectives": log, "set": {"transport": "nccl"}}]
    sweep = clustersim.sweep({**SCENARIO, "num_gpus": 8, "transport": ["nccl", "mpi"], "measured": measured})
    assert any("transport mpi keeps its constants" in warning for warning in sweep.warnings)
    plain = clustersim.sweep({**SCENARIO, "num_gpus": 8, "transport": "mpi"})
    assert sweep.runs[1].samples_per_s == plain.runs[0].samples_per_s


def test_a_missing_log_is_an_error_of_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        clustersim.sweep({**SCENARIO, "measured": [{"collectives": str(tmp_path / "none.log")}]})
