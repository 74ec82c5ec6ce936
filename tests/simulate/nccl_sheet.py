"""NCCL with a number of channels of its own, which hold as many multiprocessors."""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware import TRANSPORTS


def sheet(folder: Path, channels: int) -> str:
    """Write a sheet of NCCL with channels of its own; return its path."""
    path = folder / f"own-{channels}.yaml"
    shipped = TRANSPORTS.find("nccl").read_text().splitlines()[2:]
    own = ["channels:", f"  value: {channels}", "  source: 'assumed: for a test'"]
    path.write_text("\n".join([f"name: own-{channels}", "title: NCCL", "library: nccl", *shipped, *own]) + "\n")
    return str(path)
