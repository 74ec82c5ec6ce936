"""Times of events on a device, in seconds of the host's clock: that clock on a CPU, CUDA events on a GPU."""

from __future__ import annotations

import time
from typing import Any

import torch

Mark = Any
"""A point in time: a number on a CPU, an event on a GPU whose time is read later."""


class HostClock:
    """The clock of a CPU, which runs operations synchronously."""

    def mark(self) -> Mark:
        """Return a mark of the present time."""
        return time.perf_counter()

    def seconds(self, mark: Mark) -> float:
        """Return the host's time of a mark in seconds."""
        return float(mark)

    def settle(self) -> None:
        """Wait until all launched work is done."""

    def stretch(self, begin: Mark, end: Mark, factor: float) -> None:
        """Sleep until the time since `begin` is `factor` times that between two marks."""
        if factor > 1:
            time.sleep((factor - 1) * (self.seconds(end) - self.seconds(begin)))


class CudaClock(HostClock):
    """The clock of a GPU, which runs asynchronously: marks are events of the current stream, read when it is done."""

    def __init__(self) -> None:
        torch.cuda.synchronize()
        self._zero = torch.cuda.Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._zero_s = time.perf_counter()

    def mark(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Mark) -> float:
        mark.synchronize()
        return self._zero_s + float(self._zero.elapsed_time(mark)) / 1e3

    def settle(self) -> None:
        torch.cuda.synchronize()


def clock_of(device: torch.device) -> HostClock:
    """Return the clock of a device."""
    return CudaClock() if device.type == "cuda" else HostClock()
