"""A small scenario and cluster for fast forecasts, and the files that a command writes."""

from __future__ import annotations

from pathlib import Path

SCENARIO = """\
name: tiny
model: alexnet
num_gpus: [1, 2]
batch: {per_gpu: 16}
topology: {kind: star, num_hosts: 4, link: 10 Gbit/s, hop: 1 us, host: {gpu: k80}}
software: plain
strategy: {kind: all-reduce, algorithm: ring}
"""
STAR = "kind: star\nnum_hosts: 4\nlink: 8 Gbit/s\nhop: 1 us\n"


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
