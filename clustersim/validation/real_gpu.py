"""The sheet of a device in a run file: the shipped one if it exists, else one made from the run's measurements."""

from __future__ import annotations

import re
from pathlib import Path

from clustersim.hardware import GPUS, load_gpu
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
    known = named_sheet(rank.device.name, rank.device.num_multiprocessors) if rank.device.kind == "cuda" else None
    if known is not None:
        return known, ()
    note = f"there is no sheet for {rank.device.name}; its memory has the rate that the run measured"
    return str(_new_sheet(rank, folder)), (note,) if rank.device.kind == "cuda" else ()


def named_sheet(device: str, num_multiprocessors: int | None) -> str | None:
    """Return the sheet whose name has the most words of a device's name, None if none fits.

    A sheet with another number of multiprocessors is for another product.

    >>> named_sheet("NVIDIA A100-SXM4-40GB", 108), named_sheet("NVIDIA GeForce RTX 3050", 20)
    ('a100-40gb', None)
    """
    words = set(_words(device))
    fitting = [name for name in GPUS if set(_words(name)) <= words]
    sized = [name for name in fitting if num_multiprocessors in (None, load_gpu(name).num_multiprocessors)]
    return max(sized, key=lambda name: len(_words(name)), default=None)


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


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
