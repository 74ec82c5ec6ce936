"""Times on the GPU's own clock: events around repetitions, CUDA graphs for short kernels."""

from __future__ import annotations

import time
from statistics import median

import torch

from clustersim.profiling.timer import Call, Timer

_LAUNCHES = 8  # so few that the queue of launches, about a thousand long, does not fill
_LAUNCH_SAMPLES = 5


class CudaTimer(Timer):
    """Times calls with events on one stream; everything that is timed must be launched on that stream."""

    def __init__(self, budget_s: float, stream: torch.cuda.Stream):
        super().__init__(budget_s)
        self.stream = stream

    def once(self, play: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(self.stream)
        play()
        end.record(self.stream)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def graph(self, play: Call) -> Call | None:
        """Capture a call; what cannot be captured, because it waits for the GPU, is None.

        The stream is not the default one, as capturing asks for. torch.cuda.graph would collect garbage and
        empty the cache each time, which takes longer than a measurement.
        """
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            graph.capture_begin()
            try:
                play()
            finally:
                graph.capture_end()
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        return lambda: graph.replay()

    def host_s(self, call: Call) -> float | None:
        samples = []
        for _ in range(_LAUNCH_SAMPLES):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(_LAUNCHES):
                call()
            samples.append((time.perf_counter() - start) / _LAUNCHES)
        torch.cuda.synchronize()
        return median(samples)
