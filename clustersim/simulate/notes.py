"""What a forecast is relative to, or owes to something else than what was asked for, where that is easily missed."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.results import Run
from clustersim.scenario import Point

_MUCH = 0.25
"""Share of an iteration from which on communication decides what quicker products gain."""


def notes_of(point: Point, run: Run) -> Iterator[str]:
    """Yield in words what the numbers of a graph count, and why 8 bits gain little."""
    strategy = point.strategy
    if strategy.kind == "gossip" and not point.is_plain and {"graph", "degree"} & strategy.model_fields_set:
        copies = point.grid.num_replicas
        yield (
            f"strategy.graph is among copies of the model, not GPUs: there are {copies}, numbered from 0, on "
            f"{point.num_gpus // copies} GPUs each"
        )
    share = run.breakdown_s["communication_exposed"] / run.iteration_s
    if point.precision == "amp-fp8" and share >= _MUCH:
        yield (
            f"amp-fp8 makes products quicker and no message smaller: gradients, weights and activations travel in 16 "
            f"bits or more, and communication that nothing hides is {share:.0%} of an iteration"
        )
