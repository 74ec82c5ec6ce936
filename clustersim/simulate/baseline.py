"""The training that a run is compared with: one that can be, with the settings of the run.

It is one GPU with all of its batch at once; with as few micro-batches as fit, if that takes too much memory; the fewest
GPUs that hold the model, if one does not; and the run itself, if no fewer do. None of them has stragglers, failures, or
other jobs beside it, and none waits for samples.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.parallelism.grid import AXES
from clustersim.results import Baseline
from clustersim.scenario import Point
from clustersim.scenario.layout import of_a_batch
from clustersim.scenario.offload_checks import in_hosts_mistakes
from clustersim.scenario.smaller import on_fewer_gpus, on_one_gpu, undisturbed
from clustersim.simulate.replicate import simulate_replicate
from clustersim.simulate.setup import Setup, alone_s
from clustersim.units import format_size

_ABOVE = 1.005
"""Efficiency from which on a reason is given for it."""


def baseline_of(setup: Setup, samples_per_s: float) -> Baseline:
    """Return the baseline of a point, whose run trains `samples_per_s`."""
    return _with_reason(_found(setup, samples_per_s), setup.point, samples_per_s)


def _found(setup: Setup, samples_per_s: float) -> Baseline:
    """Return the first that can be of the trainings above."""
    if setup.point.num_gpus == 1:
        return _itself(setup, samples_per_s, "")
    alone = _Choice(setup, on_one_gpu(setup.point))
    if not alone.lacks(0):
        unchecked = _lacks_memory(alone.setup(0))
        return named_baseline(alone.setup(0), unchecked and f"memory is not checked: {unchecked}")
    if not alone.lacks(-1):
        return named_baseline(alone.fewest(), f"not all of the batch at once: {alone.lacks(0)}")
    for points in on_fewer_gpus(setup.point):
        fewer = _Choice(setup, points)
        if not fewer.lacks(-1):
            return named_baseline(fewer.fewest(), f"not one GPU: {alone.lacks(-1)}")
    return _itself(setup, samples_per_s, f"not fewer GPUs: {alone.lacks(-1)}")


def _with_reason(baseline: Baseline, point: Point, samples_per_s: float) -> Baseline:
    """Return the baseline of a run that trains `samples_per_s`; it says why the run has an efficiency above 100 %.

    GPUs that share weights or their optimizer state share the update too, which one GPU makes alone. For a batch per
    GPU it makes as many updates as they, with fewer samples each.
    """
    shares = baseline.num_gpus < point.num_gpus and not point.is_plain
    if not shares or samples_per_s <= _ABOVE * point.num_gpus * baseline.samples_per_s_per_gpu:
        return baseline
    reason = "its micro-batches are smaller" if point.batch.per_gpu is None else "its GPUs share less of the update"
    told = f"slower per GPU than the run, since {reason}"
    return replace(baseline, why="; ".join(filter(None, (baseline.why, told))))


class _Choice:
    """A training on the first GPUs of another, in ever more micro-batches, of which the last need the least memory."""

    def __init__(self, setup: Setup, points: Sequence[Point]):
        self.setup = cache(lambda place: setup.on_first_gpus(points[place]))
        self.lacks = cache(lambda place: _lacks(self.setup(place)))
        self._num = len(points)

    def fewest(self) -> Setup:
        """Return the training with the fewest micro-batches that can be, if the last can."""
        return self.setup(bisect_left(range(self._num), True, key=lambda place: not self.lacks(place)))


def _itself(setup: Setup, samples_per_s: float, why: str) -> Baseline:
    """Return the run as its own baseline, which nothing disturbs."""
    point = undisturbed(setup.point)
    if point == setup.point and not (point.is_plain and point.num_gpus == 1):
        return named_baseline(setup, why, samples_per_s)
    return named_baseline(setup.on_first_gpus(point), why)


def _lacks(setup: Setup) -> str:
    """Return what a training lacks, such as memory, in some words; empty if it can be."""
    point = setup.point
    try:
        mistakes = point.strategy.mistakes(setup.num_workers)
        if setup.laid_out is not None:
            hosts = setup.topology.gpu_hosts[setup.gpus(0)]
            mistakes += in_hosts_mistakes(point, setup.laid_out, hosts)
        memory = _lacks_memory(setup) if point.memory_check else ""
    except InputError as error:
        mistakes = list(error.mistakes)
    return mistakes[0].message if mistakes else memory


def _lacks_memory(setup: Setup) -> str:
    """Return how much memory a GPU lacks, in some words; empty if it lacks none."""
    for kind in setup.kinds_in_use:
        held, gpu = sum(setup.memory_bytes(kind).values()), load_gpu(kind)
        if held > gpu.memory_bytes:
            return f"one {gpu.name} holds {format_size(gpu.memory_bytes)}, and it needs {format_size(held)}"
    return ""


def _rate(setup: Setup) -> float:
    """Return the samples per second of a training that nothing disturbs; one GPU exchanges nothing."""
    point = setup.point
    if point.is_plain and point.num_gpus == 1:
        work = of_a_batch(point, setup.workload(setup.kinds_in_use[0]), point.per_gpu_batch, setup.given_times)
        return point.per_gpu_batch / alone_s(work)
    outcome = simulate_replicate(setup, 0, False, lambda share: None)
    return point.global_batch * outcome.applied_share / outcome.iteration_s


def named_baseline(setup: Setup, why: str, samples_per_s: float | None = None) -> Baseline:
    """Return a training as a baseline, with its name; it is simulated if its `samples_per_s` are not known."""
    point, gpu = setup.point, load_gpu(setup.kinds_in_use[0]).title
    passes = point.parallelism.micro_batches
    gpus = f"one {gpu}" if point.num_gpus == 1 else f"{point.num_gpus:,} {gpu}{_degrees(point)}"
    parts = f" in {passes:,} micro-batches" if passes > 1 else ""
    text = f"{gpus} at a batch of {point.global_batch}{parts}{_settings(point)}"
    rate = _rate(setup) if samples_per_s is None else samples_per_s
    return Baseline(point.num_gpus, point.global_batch, passes, rate, text, why)


def _degrees(point: Point) -> str:
    """Return the degrees above 1 of a layout in parentheses; empty if it has one."""
    grid = point.grid
    named = [f"{axis} {getattr(grid, axis)}" for axis in AXES if getattr(grid, axis) > 1 and not grid.tiled]
    return f" ({', '.join(named)})" if len(named) > 1 else ""


def _settings(point: Point) -> str:
    """Return what a GPU does beside plain training, after a comma; empty if it does nothing more."""
    layout = point.parallelism
    told = {"recompute": layout.recompute, "offload": layout.offload}
    return "".join(f", {key}: {value}" for key, value in told.items() if value != "none")
