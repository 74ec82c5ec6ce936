"""Which rank holds which part of the model, and who belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

AXES = ("tensor", "context", "expert", "data", "pipeline")
"""From those that are nearest to each other to those that are farthest, as Megatron-LM orders ranks."""

REPLICAS = ("context", "expert", "data")
"""The axes along which the parameters of a stage are copied (those of experts: along `data` alone)."""


RankOrRanks = TypeVar("RankOrRanks", int, np.ndarray)


@dataclass(frozen=True)
class Grid:
    """Ranks in a box: the place along `tensor` counts fastest, that along `pipeline` slowest.

    So GPUs that split a layer are neighbours, in one host where a host has room for them, and stages lie farthest
    apart, between which the least is sent.

    >>> grid = Grid(tensor=2, data=2, pipeline=2)
    >>> grid.place(5), grid.group(5, ("data",)), grid.group(5, ("tensor",))
    ((1, 0, 0, 0, 1), (5, 7), (4, 5))
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many places there are along each axis [5]."""
        return (self.tensor, self.context, self.expert, self.data, self.pipeline)

    @property
    def num_ranks(self) -> int:
        return prod(self.sizes)

    @property
    def num_replicas(self) -> int:
        """How many ranks have the same parameters, each for samples or tokens of its own."""
        return self.context * self.expert * self.data

    def place(self, rank: int) -> tuple[int, ...]:
        """Return the place of a rank along each axis [5]."""
        places = []
        for size in self.sizes:
            places.append(rank % size)
            rank //= size
        return tuple(places)

    def rank(self, place: Sequence[int]) -> int:
        """Return the rank at a place [5]."""
        number = 0
        for size, at in zip(reversed(self.sizes), reversed(place), strict=True):
            number = number * size + at
        return number

    def stage(self, rank: int) -> int:
        return rank // (self.num_ranks // self.pipeline)

    def in_stage(self, rank: RankOrRanks, stage: int) -> RankOrRanks:
        """Return the rank, or the ranks, that stand in another stage where these stand in their own."""
        each = self.num_ranks // self.pipeline
        return rank % each + stage * each

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that differ from this one along some axes only, itself included, in rank order."""
        steps, step = {}, 1
        for axis, size in zip(AXES, self.sizes, strict=True):
            steps[axis] = (step, size)
            step *= size
        place = dict(zip(AXES, self.place(rank), strict=True))
        ranks = [rank - sum(place[axis] * steps[axis][0] for axis in axes)]
        for axis in axes:
            step, size = steps[axis]
            ranks = [each + number * step for number in range(size) for each in ranks]
        return tuple(sorted(ranks))
