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
"""The axes along which the parameters of a stage are copied (those of experts: along `context` and `data`)."""


SHARD_GROUP, REPLICATE_GROUP = "shard-group", "replicate-group"
"""What programs call the copies that share out among them what they have, and those of all that have the same share."""

COLLECTIVE_AXES = {"replicas": REPLICAS, "data": ("context", "data"), "tiles": ("pipeline",)}
"""Axes of a program's collectives that are several of the grid's; copies of an expert are along `data`."""


RankOrRanks = TypeVar("RankOrRanks", int, np.ndarray)


@dataclass(frozen=True)
class Grid:
    """Ranks in a box: the place along `tensor` counts fastest, that along `pipeline` slowest.

    So GPUs that split a layer are neighbours, in one host where a host has room for them, and stages lie farthest
    apart, between which the least is sent.

    >>> grid = Grid(tensor=2, data=2, pipeline=2)
    >>> grid.place(5), grid.group(5, ("data",)), grid.group(5, ("tensor",))
    ((1, 0, 0, 0, 1), (5, 7), (4, 5))

    Where it is `tiled`, stages are tiles of an image or paths of a network, and their place counts fastest.

    >>> Grid(data=2, pipeline=4, tiled=True).group(5, ("pipeline",))
    (4, 5, 6, 7)

    Copies share out what they have `sharding_over` so many neighbours, over all of them where it is None.

    >>> grid = Grid(data=8, sharding_over=4)
    >>> grid.collective_group(5, "shard-group"), grid.collective_group(5, "replicate-group")
    ((4, 5, 6, 7), (1, 5))
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1
    tiled: bool = False
    sharding_over: int | None = None

    @property
    def _strides(self) -> dict[str, int]:
        """From how many ranks to how many the place along each axis changes."""
        steps, step = {}, 1
        for axis in ("pipeline", *AXES[:-1]) if self.tiled else AXES:
            steps[axis] = step
            step *= int(getattr(self, axis))
        return steps

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

    @property
    def shard_group_size(self) -> int:
        """How many of those share out among them what they have: the replicas of a group, or all of them."""
        return self.sharding_over or self.num_replicas

    def place(self, rank: int) -> tuple[int, ...]:
        """Return the place of a rank along each axis [5]."""
        steps = self._strides
        return tuple(rank // steps[axis] % size for axis, size in zip(AXES, self.sizes, strict=True))

    def rank(self, place: Sequence[int]) -> int:
        """Return the rank at a place [5]."""
        steps = self._strides
        return sum(at * steps[axis] for axis, at in zip(AXES, place, strict=True))

    def stage(self, rank: int) -> int:
        return rank // self._strides["pipeline"] % self.pipeline

    def in_stage(self, rank: RankOrRanks, stage: int) -> RankOrRanks:
        """Return the rank, or the ranks, that stand in another stage where these stand in their own."""
        each = self.num_ranks // self.pipeline
        there: RankOrRanks = rank - rank % self.pipeline + stage if self.tiled else rank % each + stage * each
        return there

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that differ from this one along some axes only, itself included, in rank order."""
        steps, sizes = self._strides, dict(zip(AXES, self.sizes, strict=True))
        ranks = [rank - sum(rank // steps[axis] % sizes[axis] * steps[axis] for axis in axes)]
        for axis in axes:
            ranks = [each + number * steps[axis] for number in range(sizes[axis]) for each in ranks]
        return tuple(sorted(ranks))

    def groups(self, axes: Sequence[str]) -> np.ndarray:
        """Return the ranks of each group that differ along some axes only [num_groups, size], by their first ranks.

        >>> Grid(tensor=2, data=2).groups(("data",)).tolist()
        [[0, 2], [1, 3]]
        """
        steps, ranks = self._strides, np.arange(self.num_ranks)
        firsts = ranks - sum(ranks // steps[axis] % int(getattr(self, axis)) * steps[axis] for axis in axes)
        return np.argsort(firsts, kind="stable").reshape(-1, prod(int(getattr(self, axis)) for axis in axes))

    def collective_group(self, rank: int, axis: str) -> tuple[int, ...]:
        """Return the ranks that a rank meets in collectives along what programs call an axis, in rank order."""
        if axis not in (SHARD_GROUP, REPLICATE_GROUP):
            return self.group(rank, COLLECTIVE_AXES.get(axis, (axis,)))
        replicas, num = self.group(rank, REPLICAS), self.shard_group_size
        place = replicas.index(rank)
        first = place // num * num
        return replicas[first : first + num] if axis == SHARD_GROUP else replicas[place % num :: num]
