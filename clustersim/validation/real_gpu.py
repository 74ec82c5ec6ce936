"""The sheet of a device in a run file: the shipped one if it exists, else one made from the run's measurements."""

from __future__ import annotations

import re
from pathlib import Path

from clustersim.interchange.pci_names import gpu_named
from clustersim.results.files import write_atomically
from clustersim.validation.real_file import RankFact

_PRECISIONS = ("fp32", "tf32", "fp16", "amp-bf16", "amp-fp16")
_UNUSED = "assumed: nothing is estimated from it, as every layer's time was measured in the run"

_SHEET = """\
name: {name}
title: {title}
architecture: {{value: other, source: "{unused}"}}
flop_per_s:
{rates}
memory_bytes: {{value: "{memory_bytes:.0f} B", source: "the run file"}}
memory_bytes_per_s: {{value: "{memory_bytes_per_s:.6g} B/s", source: "the run: adding one buffer to another"}}
num_multiprocessors: {{value: {num_multiprocessors}, source: "the run file, or assumed: 1 where it does not say"}}
launch_s: {{value: 1 us, source: "{unused}"}}
pcie: {{value: pcie-3-x16, source: "assumed: the sheet of this device does not exist"}}
"""


def sheet_of(rank: RankFact, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the name of the device's sheet, or the file of a new one in `folder`, and notes."""
    known = gpu_named(rank.device.name, rank.device.num_multiprocessors) if rank.device.kind == "cuda" else None
    if known is not None:
        return known, ()
    note = f"there is no sheet for {rank.device.name}; its memory has the rate that the run measured"
    return str(_new_sheet(rank, folder)), (note,) if rank.device.kind == "cuda" else ()


def _new_sheet(rank: RankFact, folder: Path) -> Path:
    device = rank.device
    rates = "\n".join(f'  {name}: {{value: 1 TFLOP/s, source: "{_UNUSED}"}}' for name in _PRECISIONS)
    text = _SHEET.format(
        name="device-of-the-run",
        title=re.sub(r"[^\w ().@-]", " ", device.name).strip() or "device",
        unused=_UNUSED,
        rates=rates,
        memory_bytes=device.memory_bytes or 2**40,
        memory_bytes_per_s=rank.memory_bytes_per_s,
        num_multiprocessors=device.num_multiprocessors or 1,
    )
    return write_atomically(folder / "device-of-the-run.yaml", text)
