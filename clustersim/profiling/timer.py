"""Times calls: many repetitions, a median and a spread, on the host's clock or the GPU's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

Call = Callable[[], Any]

SAMPLE_S = 0.5e-3
"""A sample repeats its call until it takes about this long: a thousand times the resolution of an event."""

GRAPH_BELOW_S = 0.2e-3
"""Shorter calls are replayed as a CUDA graph, so that they are not bound by launches."""

_MIN_SAMPLES, _MAX_SAMPLES = 5, 100
_MAX_REPEAT = 1000
_MAX_COPIES = 16


class Timing(NamedTuple):
    """Seconds of one call: median and interquartile range of samples, and how they were taken (`loop`, `graph`)."""

    median_s: float
    spread_s: float
    num_samples: int
    method: str


class RoundRobin:
    """Runs calls in turn and keeps each one's last result, as a network keeps its activations."""

    def __init__(self, calls: Sequence[Call]):
        self.calls = calls
        self.kept: list[Any] = [None] * len(calls)
        self.turn = 0

    def play(self, num_calls: int) -> None:
        for _ in range(num_calls):
            self.kept[self.turn] = self.calls[self.turn]()
            self.turn = (self.turn + 1) % len(self.calls)


class Timer:
    """Times calls on a device; each call has a budget of about `budget_s`."""

    def __init__(self, budget_s: float):
        self.budget_s = budget_s

    def clock(self) -> float:
        """Return the current time in seconds, for budgets."""
        return time.perf_counter()

    def once(self, play: Call) -> float:
        """Return the seconds that the device is busy with a call."""
        start = time.perf_counter()
        play()
        return time.perf_counter() - start

    def graph(self, play: Call) -> Call | None:
        """Return a call that replays this one without a new launch, None where that is not possible."""
        return None

    def host_s(self, call: Call) -> float | None:
        """Return the seconds of the host to launch a call, None where the host is the device."""
        return None

    def is_launch_bound(self, estimate_s: float) -> bool:
        """Say whether a call with this estimated time may only have waited for its launches."""
        return estimate_s < GRAPH_BELOW_S

    def time(self, calls: Sequence[Call], can_graph: bool = True) -> Timing:
        """Time one call; several do the same with different memory, so that it is not in a cache every time.

        Calls that involve more than the device and its stream set `can_graph` to False.
        """
        turns = RoundRobin(calls)
        turns.play(len(calls))
        estimate_s = self.once(partial(turns.play, 1))
        repeat = _repeat(estimate_s, len(calls))
        play: Call = partial(turns.play, repeat)
        method = "loop"
        if can_graph and self.is_launch_bound(estimate_s) and (replay := self.graph(play)) is not None:
            play, method = replay, "graph"
            self.once(play)
        samples: list[float] = []
        end = self.clock() + self.budget_s
        while len(samples) < _MIN_SAMPLES or (self.clock() < end and len(samples) < _MAX_SAMPLES):
            samples.append(self.once(play) / repeat)
            if self.clock() > end + 10 * self.budget_s and len(samples) >= 3:
                break
        return Timing(median(samples), interquartile_range(samples), len(samples), method)


def _repeat(estimate_s: float, num_calls: int) -> int:
    """Return the number of calls in a sample: for `SAMPLE_S`, and each of the calls equally often."""
    repeat = math.ceil(SAMPLE_S / estimate_s) if estimate_s > 0 else _MAX_REPEAT
    repeat = min(max(repeat, 1), _MAX_REPEAT)
    return num_calls * math.ceil(repeat / num_calls) if repeat > 1 else 1


def interquartile_range(samples: Sequence[float]) -> float:
    """Return the difference of the quartiles, each a sample.

    >>> interquartile_range([1.0, 2.0, 3.0, 4.0, 100.0])
    2.0
    """
    ordered = sorted(samples)
    return ordered[(3 * (len(ordered) - 1)) // 4] - ordered[(len(ordered) - 1) // 4]


def num_copies(num_bytes: int, cache_bytes: int) -> int:
    """Return the number of tensors that a layer must cycle through so that none of them is still in the cache.

    Twice the cache's size in all, at most 16 copies: tensors smaller than an eighth of the cache stay in
    the last-level cache in a real network too.

    >>> num_copies(50, 100), num_copies(1, 100), num_copies(1000, 100)
    (5, 16, 1)
    """
    if num_bytes > 2 * cache_bytes:
        return 1
    return min(_MAX_COPIES, 1 + math.ceil(2 * cache_bytes / max(num_bytes, 1)))
