"""What an iteration costs and takes in energy, where the sheets of its GPUs say."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.hardware import load_gpu


def dollars(kinds: Sequence[str], seconds: float) -> float | None:
    """Return what GPUs of these kinds cost for so long, idle or not, at the prices of their sheets; None without one.

    >>> dollars(["p100"], 1.0) is None
    True
    """
    prices = [load_gpu(kind).dollars_per_hour for kind in kinds]
    known = [price for price in prices if price is not None]
    return sum(known) * seconds / 3600 if len(known) == len(prices) else None


def joules(kinds: Sequence[str], seconds: float) -> float | None:
    """Return the energy that GPUs of these kinds take for so long at the power that they are made for at most.

    An upper estimate of theirs; hosts and switches are left out. None where a sheet does not say.
    """
    powers = [load_gpu(kind).power_w for kind in kinds]
    known = [power for power in powers if power is not None]
    return sum(known) * seconds if len(known) == len(powers) else None
