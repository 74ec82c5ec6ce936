"""How the layers of a model share the time of forward and backward, watched from inside while it trains."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch

from real_run.clock import Mark
from real_run.training import Trainee

_ITERATIONS = 3


def split_layers(trainee: Trainee, module: torch.nn.Module) -> list[dict[str, Any]]:
    """Return seconds of each layer, forward and backward, in the order of the model.

    Forward is from when a layer is called to when it returns. Backward is from when the gradients of the layer with
    parameters behind it were there to when its own are; what layers without parameters take goes to the next one that
    has some, as only gradients can be seen to arrive. A layer is measured a few times, and the median taken.
    """
    watch = _Watch(trainee)
    try:
        laps = [watch.lap(module) for _ in range(_ITERATIONS + 1)][1:]
    finally:
        watch.remove()
    return [
        {
            "name": layer.name,
            "op": layer.op,
            "fused": list(layer.fused),
            "forward_s": median(lap[number][0] for lap in laps),
            "backward_s": median(lap[number][1] for lap in laps),
        }
        for number, layer in enumerate(trainee.graph.layers)
    ]


class _Watch:
    """Hooks on every layer and every parameter that note when they are passed."""

    def __init__(self, trainee: Trainee):
        self._trainee, self._clock = trainee, trainee.clock
        self._forward: dict[int, list[Mark]] = {}
        self._ready: dict[int, Mark] = {}
        self._handles: list[Any] = []
        for number, layer in enumerate(trainee.graph.layers):
            self._handles.append(layer.module.register_forward_pre_hook(self._entered(number)))
            self._handles.append(layer.module.register_forward_hook(self._left(number)))
            for parameter in layer.module.parameters():
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._arrived(number)))

    def lap(self, module: torch.nn.Module) -> list[tuple[float, float]]:
        """Train one iteration and return seconds forward and backward of each layer."""
        self._ready.clear()
        loss = self._trainee.forward(module)
        begin = self._clock.mark()
        self._trainee.backward(loss)
        end = self._clock.mark()
        self._trainee.update()
        self._clock.settle()
        at = self._clock.seconds
        backward = _gaps({number: at(mark) for number, mark in self._ready.items()}, at(begin), at(end))
        passes = (self._forward[number] for number in range(len(self._trainee.graph.layers)))
        return [(at(left) - at(entered), backward.get(number, 0.0)) for number, (entered, left) in enumerate(passes)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _entered(self, number: int) -> Any:
        return lambda module, inputs: self._forward.update({number: [self._clock.mark()]})

    def _left(self, number: int) -> Any:
        return lambda module, inputs, output: self._forward[number].append(self._clock.mark())

    def _arrived(self, number: int) -> Any:
        return lambda parameter: self._ready.update({number: self._clock.mark()})


def _gaps(ready_s: dict[int, float], begin_s: float, end_s: float) -> dict[int, float]:
    """Return the backward seconds of each layer with parameters, last layer first; the first one has the rest.

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
