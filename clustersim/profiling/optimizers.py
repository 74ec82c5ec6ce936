"""Seconds of an optimizer's step over all parameters of a model, by rule and by implementation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import nn

from clustersim.profiling.errors import is_out_of_memory
from clustersim.profiling.timer import Timer, num_copies

RULES = ("sgd", "momentum", "adam")
IMPLEMENTATIONS = ("foreach", "fused")
DEFAULT = ("momentum", "foreach")
"""Rule and implementation of whole iterations."""

_MOVED = 2  # weights and gradients, which every rule reads
_RATE = 1e-6  # so small that weights do not change, however often a step is repeated


def make_optimizer(parameters: list[nn.Parameter], rule: str, implementation: str) -> torch.optim.Optimizer:
    """Return one of torch's optimizers; an implementation that this torch lacks is a RuntimeError or a TypeError."""
    how: dict[str, Any] = {implementation: True}
    if rule == "adam":
        return torch.optim.Adam(parameters, lr=_RATE, **how)
    return torch.optim.SGD(parameters, lr=_RATE, momentum=0.9 if rule == "momentum" else 0.0, **how)


def measure_optimizers(model: nn.Module, timer: Timer, cache_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each rule and implementation: seconds of a step, its launch time, and its state's bytes.

    Steps cycle through enough copies of the weights that a cache holds none of them, as after a backward pass.
    """
    own = list(model.parameters())
    num_bytes = _MOVED * sum(parameter.numel() * parameter.element_size() for parameter in own)
    sets = [own, *([*map(_copy, own)] for _ in range(num_copies(num_bytes, cache_bytes) - 1))]
    for parameter in chain.from_iterable(sets):
        parameter.grad = torch.zeros_like(parameter)
    for rule in RULES:
        for implementation in IMPLEMENTATIONS:
            try:
                optimizers = [make_optimizer(parameters, rule, implementation) for parameters in sets]
                for optimizer in optimizers:
                    optimizer.step()
            except (RuntimeError, TypeError, ValueError) as error:
                if is_out_of_memory(error):
                    raise
                continue  # this torch, or this device, has no such implementation
            timing = timer.time([optimizer.step for optimizer in optimizers])
            yield {
                "rule": rule,
                "implementation": implementation,
                "step_s": timing.median_s,
                "spread_s": timing.spread_s,
                "host_s": timer.host_s(optimizer.step),
                "state_bytes": state_bytes(optimizer),
            }
    for parameter in own:
        parameter.grad = None


def _copy(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().clone())


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes that an optimizer keeps between steps."""
    tensors = (value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def one_step(optimizer: torch.optim.Optimizer, scaler: Any | None) -> None:
    """Update the weights; with fp16, gradients are unscaled and checked for infinities first."""
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()


def make_scaler(precision: str, device: torch.device) -> Any | None:
    """Return torch's gradient scaler for fp16 on a GPU, None for every other precision."""
    if precision != "amp-fp16" or device.type != "cuda":
        return None
    scaler = getattr(torch.amp, "GradScaler", None)
    return torch.cuda.amp.GradScaler() if scaler is None else scaler("cuda")
