"""What unequal GPUs cost a point: who waits for others waits for the slowest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clustersim.hardware.sheet import Gpu
from clustersim.model import LayerTime, Workload
from clustersim.scenario.point import Point
from clustersim.stragglers import Awaited, slowest, slowest_beside


def variability_of(point: Point, gpu: Gpu, given_times: Sequence[LayerTime | None] | None) -> float:
    """Return the standard deviation over mean of what GPUs of this kind take for the same work.

    Given layer times, and stragglers that draw the pace of every GPU, contain the differences between GPUs already.
    """
    if point.compute.variability is not None:
        return point.compute.variability
    if any(given_times or ()) or any(each.gives_every_gpu for each in point.stragglers):
        return 0.0
    return gpu.variability or 0.0


def slowest_of(
    point: Point, gpu: Gpu, given_times: Sequence[LayerTime | None] | None, num_gpus: int, num_hosts: int
) -> float:
    """Return how many times as long as the mean of its kind the slowest GPU takes that each of a kind waits for.

    `num_gpus` of the point's are of this kind, on `num_hosts`. Where not all workers are awaited, each kind has its
    share of those that are.
    """
    every, copies = (point.num_gpus, num_gpus) if point.is_plain else (point.grid.data, point.grid.data)
    awaited = point.strategy.awaited(every, num_hosts)
    if awaited.quickest < awaited.workers:
        awaited = Awaited(max(1, round(awaited.quickest * copies / every)), copies)
    elif copies < every:
        awaited = point.strategy.awaited(copies, num_hosts)
    return slowest(variability_of(point, gpu, given_times), awaited, num_gpus // copies)


def share_of_slowest(
    point: Point, gpu: Gpu, given_times: Sequence[LayerTime | None] | None, factors: np.ndarray, num_hosts: int
) -> np.ndarray:
    """Return [num_ranks] the share of `slowest_of` that each rank of one kind keeps beside known constant `factors`.

    A rank that is much slower by its factor is the slowest anyway, and does not get the expected maximum on top. Where
    workers do not all wait for each other, every share is 1.
    """
    workers = point.num_gpus if point.is_plain else point.grid.data
    variability = variability_of(point, gpu, given_times)
    all_awaited = point.strategy.awaited(workers, num_hosts) == Awaited(workers, workers)
    if not variability or not all_awaited or (factors == factors[0]).all():
        return np.ones(len(factors))
    equal = slowest(variability, Awaited(len(factors), len(factors)))
    share: np.ndarray = slowest_beside(variability, factors) / (factors * equal)
    return share


def at_pace(work: Workload, factor: float) -> Workload:
    """Return the work of a GPU that takes `factor` times as long."""
    if factor == 1:
        return work
    layers = tuple(layer.scaled(factor) for layer in work.layers)
    return replace(work, layers=layers, optimizer_s=work.optimizer_s * factor, fixed_s=work.fixed_s * factor)


def told_of_slowest(gpu: Gpu, factor: float, variability: float) -> str:
    """Say how much longer the slowest GPU takes that others wait for: less than the mean, where few are awaited."""
    than = f"{abs(factor - 1):.1%} {'longer' if factor > 1 else 'less'} than the mean one"
    return (
        f"The slowest GPU that others wait for ({gpu.title}) is expected to take {than}: what they take differs by "
        f"{variability:.1%}, one standard deviation (compute.variability)."
    )
