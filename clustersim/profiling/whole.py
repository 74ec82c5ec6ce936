"""Whole models: seconds of forward passes, backward passes and iterations, and their memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from clustersim.profiling.device import Device
from clustersim.profiling.net import NetGraph
from clustersim.profiling.optimizers import DEFAULT, make_optimizer, make_scaler, one_step, state_bytes
from clustersim.profiling.precision import autocast
from clustersim.profiling.timer import interquartile_range

_WARM_UP = 3  # cuDNN tries its algorithms in the first
_MIN_ITERATIONS, _MAX_ITERATIONS = 5, 50
_HOST_WARM_UP, _HOST_MIN_ITERATIONS = 1, 3  # an iteration may take a minute, and rounds repeat it
_KERNELS_WORTH = 40  # whole iterations have the time budget of this many kernels


class WholeIteration:
    """One training iteration of a model, part by part."""

    def __init__(self, graph: NetGraph, batch: tuple[Tensor, Tensor], precision: str, device: Device):
        self.graph, self.batch, self.precision, self.device = graph, batch, precision, device
        self.optimizer = make_optimizer(list(graph.parameters()), *DEFAULT)
        self.scaler = make_scaler(precision, device.torch)

    def forward(self) -> Tensor:
        with autocast(self.precision, self.device.torch):
            loss: Tensor = self.graph(*self.batch)
        return loss

    def run(self, mark: Callable[[], object]) -> None:
        """Train on the batch, with a mark before and after forward, backward and the optimizer's step."""
        mark()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward()
        mark()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        mark()
        one_step(self.optimizer, self.scaler)
        mark()


def measure_whole(
    graph: NetGraph, batch: tuple[Tensor, Tensor], precision: str, device: Device, kernel_s: float
) -> dict[str, Any]:
    """Return a profile's values of whole iterations: medians, the spread of the iteration, memory, clocks.

    Iterations follow one another without waiting, as in training. Labels are random and the learning rate is
    almost zero: only the time matters.
    """
    graph.train()
    iteration = WholeIteration(graph, batch, precision, device)
    clocks = device.clocks()
    for _ in range(_WARM_UP if device.is_cuda else _HOST_WARM_UP):
        iteration.run(lambda: None)
    durations = (_cuda_durations if device.is_cuda else _host_durations)(iteration, kernel_s * _KERNELS_WORTH)
    names = ("forward_s", "backward_s", "optimizer_s")
    row: dict[str, Any] = {name: median(parts[part] for parts in durations) for part, name in enumerate(names)}
    totals = [sum(parts) for parts in durations]
    row |= {"iteration_s": median(totals), "spread_s": interquartile_range(totals), "samples": len(totals)}
    row |= {"optimizer": dict(zip(("rule", "implementation"), DEFAULT, strict=True))}
    return row | {"memory": _memory(iteration), "clocks": {"before": clocks, "after": device.clocks()}}


def _host_durations(iteration: WholeIteration, budget_s: float) -> list[tuple[float, ...]]:
    durations: list[tuple[float, ...]] = []
    end = time.perf_counter() + budget_s
    while len(durations) < _HOST_MIN_ITERATIONS or (time.perf_counter() < end and len(durations) < _MAX_ITERATIONS):
        durations.append(_durations(iteration))
    return durations


def _durations(iteration: WholeIteration) -> tuple[float, ...]:
    marks: list[float] = []
    iteration.run(lambda: marks.append(time.perf_counter()))
    return tuple(after - before for before, after in pairwise(marks))


def _cuda_durations(iteration: WholeIteration, budget_s: float) -> list[tuple[float, ...]]:
    """Let the host run ahead as in training, and read the marks afterwards.

    An iteration ends where the next one starts, so that the device's waiting between them counts.
    """
    start = time.perf_counter()
    iteration.run(lambda: None)
    torch.cuda.synchronize()
    num = min(max(int(budget_s / (time.perf_counter() - start)), _MIN_ITERATIONS), _MAX_ITERATIONS)
    marks: list[torch.cuda.Event] = []

    def mark() -> None:
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    for _ in range(num + 1):
        iteration.run(mark)
    torch.cuda.synchronize()
    starts = range(0, 4 * num, 4)
    return [
        tuple(marks[at + part].elapsed_time(marks[at + part + (2 if part == 2 else 1)]) / 1e3 for part in range(3))
        for at in starts
    ]


def _memory(iteration: WholeIteration) -> dict[str, int | None]:
    """Return bytes: tensors kept for backward, the optimizer's state, and the peak of allocated memory."""
    kept = _saved_bytes(iteration)
    found: dict[str, int | None] = {
        "parameter_bytes": _bytes_of(iteration.graph.parameters()),
        "optimizer_bytes": state_bytes(iteration.optimizer),
        "saved_for_backward_bytes": kept,
        "max_allocated_bytes": None,
        "max_reserved_bytes": None,
    }
    if iteration.device.is_cuda:
        iteration.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        iteration.run(lambda: None)
        torch.cuda.synchronize()
        found["max_allocated_bytes"] = torch.cuda.max_memory_allocated()
        found["max_reserved_bytes"] = torch.cuda.max_memory_reserved()
    return found


def _saved_bytes(iteration: WholeIteration) -> int:
    """Return the bytes that autograd keeps after the forward pass, without parameters, shared memory counted once."""
    own = {parameter.untyped_storage().data_ptr() for parameter in iteration.graph.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = iteration.forward()
    del loss
    return sum(kept.values())


def _bytes_of(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
