"""Boards that are sold under one name: which one a sheet is, and what the others would give."""

from __future__ import annotations

from clustersim.hardware import load_gpu
from clustersim.hardware.power_limit import ORDINARY
from clustersim.hardware.sheet import Gpu


def other_boards(gpu: Gpu) -> str | None:
    """Return which board is forecast and how to ask for another; None where the name means one board.

    >>> other_boards(load_gpu("k80")) is None
    True
    """
    if not gpu.boards:
        return None
    others = "; ".join(_compared(gpu, load_gpu(name)) for name in gpu.boards)
    return f"`{gpu.name}` is taken as {gpu.title}{_power(gpu)}. Other boards have that name too: {others}."


def _compared(gpu: Gpu, other: Gpu) -> str:
    """Return another board's rates over those of a GPU."""
    rates = [("memory", other.memory_bytes_per_s / gpu.memory_bytes_per_s)]
    tensor = [key for key in gpu.flop_per_s if key not in ORDINARY and key in other.flop_per_s]
    if tensor:
        rates.insert(0, ("tensor cores", other.flop_per_s[tensor[-1]] / gpu.flop_per_s[tensor[-1]]))
    shares = " and ".join(f"{share:.2f} of the rate of its {what}" for what, share in rates)
    return f"`{other.name}` ({other.title}{_power(other)}) has {shares}"


def _power(gpu: Gpu) -> str:
    return "" if gpu.power_w is None else f", {gpu.power_w:g} W"
