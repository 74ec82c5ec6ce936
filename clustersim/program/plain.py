"""The program of a GPU that trains a whole copy of the model: layer by layer, with buckets as they become ready."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.program.iteration import Iteration
from clustersim.program.ops import BACKWARD, FORWARD, Compute, Op, Program, Ready

_ROUNDING = 1e-12
"""Share of an iteration below which seconds are a rounding error."""


def plain_program(
    names: Sequence[str], forward_s: Sequence[float], backward_s: Sequence[float], plan: Iteration
) -> Program:
    """Return an iteration as a program of its layers [num_layers], in forward order, up to the end of backward.

    Seconds of `plan` that belong to no layer, such as those of filling a bucket, become compute operations of their own
    where they occur.

    >>> from clustersim.program import plan_iteration
    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True)
    >>> [line.split(":")[0] for line in plain_program(["a", "b"], [1, 1], [2, 2], plan).lines()][2:]
    ['compute backward 0 b', 'gradients ready', 'compute backward 0 a', 'gradients ready']
    """
    least_s = _ROUNDING * plan.compute_s
    ops: list[Op] = [
        *_compute("before the layers", plan.forward_s - sum(forward_s), FORWARD, least_s),
        *(op for name, seconds in zip(names, forward_s, strict=True) for op in _compute(name, seconds, FORWARD, 0.0)),
    ]
    buckets = list(enumerate(plan.buckets))
    layers = list(zip(names, backward_s, strict=True))
    time_s = 0.0
    while layers or buckets:
        if buckets and (not layers or time_s + layers[-1][1] > buckets[0][1].ready_s + least_s):
            number, bucket = buckets.pop(0)
            ops += [*_compute(f"fill bucket {bucket.name}", bucket.ready_s - time_s, BACKWARD, least_s), Ready(number)]
            time_s = max(time_s, bucket.ready_s)
        else:
            name, seconds = layers.pop()
            ops += _compute(name, seconds, BACKWARD, 0.0)
            time_s += seconds
    ops += _compute("rest of backward", plan.backward_s - time_s, BACKWARD, least_s)
    return Program(0, tuple(ops))


def _compute(name: str, seconds: float, phase: str, least_s: float) -> list[Op]:
    return [Compute(name, seconds, phase, 0)] if seconds > least_s else []
