"""Times on the GPU's own clock: events around repetitions, CUDA graphs for short kernels."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import torch

from clustersim.profiling.timer import Call, Timer

_LAUNCHES = 8  # few enough not to fill the launch queue, which has about a thousand entries
_LAUNCH_SAMPLES = 5
_LAUNCH_BOUND_SHARE = 0.5  # of a call's time; if launching takes more, the device may have waited for it


class CudaTimer(Timer):
    """Times calls with events on one stream; all timed work must be launched on that stream."""

    def __init__(self, budget_s: float, stream: torch.cuda.Stream):
        super().__init__(budget_s)
        self.stream = stream
        self.launch_s = 0.0  # host time to launch the last call

    def once(self, play: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin_s = time.perf_counter()
        start.record(self.stream)
        play()
        end.record(self.stream)
        self.launch_s = time.perf_counter() - begin_s
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def is_launch_bound(self, estimate_s: float) -> bool:
        """Many kernels of one call, such as an optimizer's, may be bound by launches even if they take long."""
        return super().is_launch_bound(estimate_s) or self.launch_s > _LAUNCH_BOUND_SHARE * estimate_s

    def graph(self, play: Call) -> Call | None:
        """Capture a call as a CUDA graph; return None where it cannot be captured because it waits for the GPU.

        The stream is not the default one, as capturing requires. torch.cuda.graph would collect garbage and
        empty the cache each time, which takes longer than a measurement; so garbage collection is off during a capture.
        """
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            with _uncollected():
                graph.capture_begin()
                try:
                    play()
                finally:
                    graph.capture_end()
        except RuntimeError:
            torch.cuda.synchronize()
            _renew_generators()
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection, because freeing device memory would invalidate a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _renew_generators() -> None:
    """Give random number generators a new state; an invalid capture leaves them unusable for dropout.

    Without it all random draws fail from then on ("Offset increment outside graph capture").
    """
    for generator in torch.cuda.default_generators:
        if hasattr(generator, "graphsafe_set_state"):
            generator.graphsafe_set_state(generator.clone_state())
