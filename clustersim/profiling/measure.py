"""Seconds of one layer, phase by phase, from memory and from the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from clustersim.profiling.layers import HookedLayer
from clustersim.profiling.phases import NeighbourTensors, Phases, phases_of
from clustersim.profiling.timer import Call, Timer, Timing, num_copies


def measure_layer(
    traced: HookedLayer, precision: str, device: torch.device, timer: Timer, cache_bytes: int, warm: bool = True
) -> dict[str, Any]:
    """Return a profile's values of one layer's times.

    As in training, tensors that the neighbouring layers have just written are in the cache, and weights and kept inputs
    come from memory. `warm` has the same three times with all tensors in the cache, where that makes a difference.
    `host_s` is the launch time, `spread_s` the sum of the three interquartile ranges.
    """
    copies = num_copies(traced.num_bytes, cache_bytes)
    written = NeighbourTensors.of(traced, device)
    phases = [phases_of(traced, precision, device, written) for _ in range(copies)]
    times, timings = _times(phases, timer)
    row: dict[str, Any] = {**times, "spread_s": sum(each.spread_s for each in timings)}
    row |= {"samples": min(each.num_samples for each in timings), "timing": timings[0].method}
    if warm and copies > 1:
        row["warm"] = _times(phases[:1], timer)[0]
    forward, backward = phases[0].launch()
    launch_s = {"forward": timer.host_s(forward), "backward": timer.host_s(backward) if backward else 0.0}
    if launch_s["forward"] is not None:
        row["host_s"] = launch_s
    return row


def _times(phases: Sequence[Phases], timer: Timer) -> tuple[dict[str, float], list[Timing]]:
    """Return the seconds of each phase: data and weights in the ratio of separate calls, their sum of a joint call."""
    timings: list[Timing] = []

    def seconds(call_of: Callable[[Phases], Call | None]) -> float:
        calls = [call for call in map(call_of, phases) if call is not None]
        if not calls:
            return 0.0
        timings.append(timer.time(calls))
        return timings[-1].median_s

    forward_s = seconds(lambda phase: phase.forward)
    data_s = seconds(lambda phase: phase.backward_data)
    weights_s = seconds(lambda phase: phase.backward_weights)
    both_s = seconds(lambda phase: phase.both)
    if both_s and phases[0].backward_weights is None:
        weights_s = max(both_s - data_s, 0.0)
    elif both_s:
        share = both_s / (data_s + weights_s)
        data_s, weights_s = share * data_s, share * weights_s
    data_s += seconds(lambda phase: phase.gradient_sum)
    return {"forward_s": forward_s, "backward_data_s": data_s, "backward_weights_s": weights_s}, timings
