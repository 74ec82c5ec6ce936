"""Times of a model's layers in forward and backward, measured with hooks during training."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from real_run.clock import Mark
from real_run.training import LocalTraining

_ITERATIONS = 3


def split_layers(training: LocalTraining, module: torch.nn.Module) -> list[dict[str, Any]]:
    """Return the seconds of each layer, forward and backward, in the order of the model.

    Forward is from the return of the previous layer to its own return. Backward is from the time when the gradients of
    the next layer with parameters are ready to the time when its own are; layers without parameters are counted with
    the next layer that has some, as hooks see only gradients. All times are those of the iteration of median length:
    medians per layer would not add up to an iteration.
    """
    hooks = _LayerHooks(training)
    try:
        iterations = [hooks.iteration(module) for _ in range(_ITERATIONS + 1)][1:]
    finally:
        hooks.remove()
    middle = sorted(iterations, key=lambda iteration: sum(map(sum, iteration)))[_ITERATIONS // 2]
    return [
        {
            "name": layer.name,
            "op": layer.op,
            "fused": list(layer.fused),
            "forward_s": forward_s,
            "backward_s": backward_s,
        }
        for layer, (forward_s, backward_s) in zip(training.graph.layers, middle, strict=True)
    ]


class _LayerHooks:
    """Hooks on every layer and every parameter that record times."""

    def __init__(self, training: LocalTraining):
        self._training, self._clock = training, training.clock
        self._left: dict[int, Mark] = {}
        self._ready: dict[int, Mark] = {}
        self._handles: list[Any] = []
        for number, layer in enumerate(training.graph.layers):
            self._handles.append(layer.module.register_forward_hook(self._returned(number)))
            for parameter in layer.module.parameters():
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._arrived(number)))

    def iteration(self, module: torch.nn.Module) -> list[tuple[float, float]]:
        """Train one iteration and return the forward and backward seconds of each layer."""
        self._ready.clear()
        called = self._clock.mark()
        loss = self._training.forward(module)
        begin = self._clock.mark()
        self._training.backward(loss)
        end = self._clock.mark()
        self._training.update()
        self._clock.settle()
        at = self._clock.seconds
        left_s = [at(self._left[number]) for number in range(len(self._training.graph.layers))]
        forward = [now - before for before, now in pairwise([at(called), *left_s])]
        backward = _gaps({number: at(mark) for number, mark in self._ready.items()}, at(begin), at(end))
        return [(forward_s, backward.get(number, 0.0)) for number, forward_s in enumerate(forward)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _returned(self, number: int) -> Any:
        return lambda module, inputs, output: self._left.update({number: self._clock.mark()})

    def _arrived(self, number: int) -> Any:
        return lambda parameter: self._ready.update({number: self._clock.mark()})


def _gaps(ready_s: dict[int, float], begin_s: float, end_s: float) -> dict[int, float]:
    """Return the backward seconds of each layer with parameters, last layer first; the first one gets the rest.

    >>> _gaps({0: 9.0, 2: 3.0, 3: 1.0}, 0.0, 10.0)
    {3: 1.0, 2: 2.0, 0: 7.0}
    """
    found: dict[int, float] = {}
    before = begin_s
    order = sorted(ready_s, reverse=True)
    for number in order:
        now = end_s if number == order[-1] else max(before, ready_s[number])
        found[number] = now - before
        before = now
    return found
