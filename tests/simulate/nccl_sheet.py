"""A sheet of NCCL with a given number of channels; each occupies a multiprocessor."""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware import TRANSPORTS


def sheet(folder: Path, channels: int) -> str:
    """Write a sheet of NCCL with so many channels; return its path."""
    path = folder / f"own-{channels}.yaml"
    shipped = TRANSPORTS.find("nccl").read_text().splitlines()[2:]
    own = ["channels:", f"  value: {channels}", "  source: 'assumed: for a test'"]
    path.write_text("\n".join([f"name: own-{channels}", "title: NCCL", "library: nccl", *shipped, *own]) + "\n")
    return str(path)
