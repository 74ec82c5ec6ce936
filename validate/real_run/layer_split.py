"""How the layers of a model share the time of forward and backward, watched from inside while it trains."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from real_run.clock import Mark
from real_run.training import Trainee

_ITERATIONS = 3


def split_layers(trainee: Trainee, module: torch.nn.Module) -> list[dict[str, Any]]:
    """Return seconds of each layer, forward and backward, in the order of the model.

    Forward is from when the layer before it returned to when it returns. Backward is from when the gradients of the
    layer with parameters behind it were there to when its own are; what layers without parameters take goes to the next
    one that has some, as only gradients can be seen to arrive. Of a few iterations the one of median length is taken
    whole: medians layer by layer would lose what one layer takes off the next.
    """
    watch = _Watch(trainee)
    try:
        laps = [watch.lap(module) for _ in range(_ITERATIONS + 1)][1:]
    finally:
        watch.remove()
    middle = sorted(laps, key=lambda lap: sum(map(sum, lap)))[_ITERATIONS // 2]
    return [
        {
            "name": layer.name,
            "op": layer.op,
            "fused": list(layer.fused),
            "forward_s": forward_s,
            "backward_s": backward_s,
        }
        for layer, (forward_s, backward_s) in zip(trainee.graph.layers, middle, strict=True)
    ]


class _Watch:
    """Hooks on every layer and every parameter that note when they are passed."""

    def __init__(self, trainee: Trainee):
        self._trainee, self._clock = trainee, trainee.clock
        self._left: dict[int, Mark] = {}
        self._ready: dict[int, Mark] = {}
        self._handles: list[Any] = []
        for number, layer in enumerate(trainee.graph.layers):
            self._handles.append(layer.module.register_forward_hook(self._returned(number)))
            for parameter in layer.module.parameters():
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._arrived(number)))

    def lap(self, module: torch.nn.Module) -> list[tuple[float, float]]:
        """Train one iteration and return seconds forward and backward of each layer."""
        self._ready.clear()
        called = self._clock.mark()
        loss = self._trainee.forward(module)
        begin = self._clock.mark()
        self._trainee.backward(loss)
        end = self._clock.mark()
        self._trainee.update()
        self._clock.settle()
        at = self._clock.seconds
        left_s = [at(self._left[number]) for number in range(len(self._trainee.graph.layers))]
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
