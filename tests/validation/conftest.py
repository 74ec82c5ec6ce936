"""A small artificial case with numbers that can be checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

SCENARIO = """\
name: tiny
model: squeezenet-1.0
num_gpus: 1
batch: {per_gpu: 32}
topology: {kind: star, num_hosts: 4, gpu: p100, link: 1 GB/s, hop: 1 us}
software: plain
strategy: {kind: all-reduce, algorithm: ring, overlap: false, buckets: whole}
compute: {single_gpu: {samples_per_s: 320, batch: 32, source: made up}}
optimizer: sgd
num_iterations: 2
"""

COLLECTIVE = """\
collective: all-reduce
topology: {kind: star, num_hosts: 4, gpu: p100, link: 1 GB/s, hop: 0 s}
num_gpus: 4
bytes: 1 MB
algorithm: ring
transport: ideal
"""

MEASURED = """\
scenario,num_gpus,strategy.algorithm,metric,value,unit,role,provenance,where,note
scenario,1,,samples_per_s,320,images/s,calibration,read,made up,
ring,,,time_s,1.25,ms,prediction,read,made up,"1.5 MB in all, at 1 GB/s"
"""


@pytest.fixture
def make_case(tmp_path: Path):
    """Return a function that writes a case with this table and returns its folder."""

    def make(measured: str = MEASURED, name: str = "tiny") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "source.md").write_text("# A made-up cluster\n", encoding="utf-8")
        (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
        (folder / "ring.yaml").write_text(COLLECTIVE, encoding="utf-8")
        (folder / "measured.csv").write_text(measured, encoding="utf-8")
        return folder

    return make
