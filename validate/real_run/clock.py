"""When something happened on a device: the host's clock on a CPU, events on a GPU, both in seconds of the host's."""

from __future__ import annotations

import time
from typing import Any

import torch

Mark = Any
"""A moment: a number on a CPU, an event on a GPU whose time is asked for later."""


class HostClock:
    """A CPU does what it is told at once, so that the host's clock says when."""

    def mark(self) -> Mark:
        """Return now."""
        return time.perf_counter()

    def seconds(self, mark: Mark) -> float:
        """Return the host's seconds of a mark."""
        return float(mark)

    def settle(self) -> None:
        """Wait until everything that was launched is done."""

    def stretch(self, begin: Mark, end: Mark, factor: float) -> None:
        """Sleep so long that what lay between two marks has taken `factor` times its time."""
        if factor > 1:
            time.sleep((factor - 1) * (self.seconds(end) - self.seconds(begin)))


class CudaClock(HostClock):
    """A GPU runs behind its host: marks are events of the stream that is current, timed when all is done."""

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
