"""What a rank of a layout holds, quickly: the same sums as of a layout that is worked out, for thousands of them.

The bytes of `clustersim.parallelism.memory` are linear in the samples of a micro-batch and in how many of them are in
flight, so a stage that holds the same layers as another one is asked for three times and then added up.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from clustersim.parallelism.memory import HeldPart, HeldRules, stage_memory
from clustersim.planner.material import Material, Split
from clustersim.planner.shapes import stage_shapes
from clustersim.planner.space import Choice
from clustersim.workload.memory import SLACK


class Rooms:
    """The bytes of the fullest rank of each choice of a material."""

    def __init__(self, material: Material):
        self._material = material
        self._known: dict[Hashable, float] = {}

    def fullest_bytes(self, choice: Choice) -> float:
        """Return the bytes that a rank of the fullest stage holds; raise InputError where there is no such layout."""
        layout, grid = choice.layout, choice.grid
        split = self._material.split(grid.tensor, layout.sequence_parallel)
        begins = self._material.begins(choice)
        shapes = stage_shapes(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
        ends = (*begins[1:], len(split.pieces))
        spans = list(zip(begins, ends, strict=True))
        return max(
            self._stage_bytes(choice, split, tuple(spans[stage :: grid.pipeline]), shapes[stage].in_flight)
            for stage in range(grid.pipeline)
        )

    def _stage_bytes(
        self, choice: Choice, split: Split, spans: tuple[tuple[int, int], ...], num_in_flight: float
    ) -> float:
        layout, grid = choice.layout, choice.grid
        kinds = tuple(split.kinds[first:end] for first, end in spans)
        starts = tuple(tuple(_blocks(split, *span)) for span in spans)
        again = tuple(split.again[layout.recompute][first:end] for first, end in spans)
        own = grid.tensor, layout.sequence_parallel, kinds, starts

        def held(in_flight: float, micro_batch: int, sharding: str | None, replicas: int) -> dict[str, float]:
            parts = [
                HeldPart(split.pieces[first:end], in_flight, blocks, repeated)
                for (first, end), blocks, repeated in zip(spans, starts, again, strict=True)
            ]
            return stage_memory(parts, self._rules(micro_batch, sharding, replicas))

        def ask(in_flight: float) -> float:
            key = ("activations", own, again, in_flight)
            if key not in self._known:
                self._known[key] = held(in_flight, 1, None, 1)["activations"]
            return self._known[key]

        key = ("state", own, layout.sharding, grid.data if layout.sharding else 1)
        if key not in self._known:
            self._known[key] = sum(held(1, 0, layout.sharding, grid.data).values())
        activations = ask(1.0) + (num_in_flight - 1.0) * (ask(2.0) - ask(1.0))
        return self._known[key] + (1 + SLACK) * activations * choice.micro_batch

    def _rules(self, micro_batch: int, sharding: str | None, replicas: int) -> HeldRules:
        point = self._material.point
        return HeldRules(
            micro_batch=micro_batch,
            precision=point.precision,
            optimizer=point.optimizer,
            sharding=sharding,
            replicas=replicas,
            weight_share=self._material.setup.model.weight_share,
        )


def _blocks(split: Split, first: int, end: int) -> list[int]:
    """Return where blocks begin in layers from `first` to before `end`, the first at 0."""
    starts = np.array(split.blocks)
    return [0, *(starts[(starts > first) & (starts < end)] - first).tolist()]
