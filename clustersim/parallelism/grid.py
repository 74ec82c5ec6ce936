"""Which rank holds which part of the model, and the groups of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

AXES = ("tensor", "context", "expert", "data", "pipeline")
"""From the axis of the nearest ranks to that of the farthest, as Megatron-LM orders ranks."""

REPLICAS = ("context", "expert", "data")
"""The axes along which the parameters of a stage are replicated (those of experts: along `context` and `data`)."""


SHARD_GROUP, REPLICATE_GROUP = "sharers", "peers"
"""Axis names in programs: replicas that shard among themselves, and replicas that have the same shard."""

COLLECTIVE_AXES = {"replicas": REPLICAS, "data": ("context", "data"), "tiles": ("pipeline",)}
"""Axis names of a program's collectives that cover several axes of the grid; replicas of an expert are along `data`."""


RankOrRanks = TypeVar("RankOrRanks", int, np.ndarray)


@dataclass(frozen=True)
class Grid:
    """The grid of ranks: the coordinate along `tensor` changes fastest, that along `pipeline` slowest.

    So the GPUs of a tensor parallel group are neighbours, in one host if it has enough GPUs, and stages, between which
    the least is sent, are farthest apart.

    >>> grid = Grid(tensor=2, data=2, pipeline=2)
    >>> grid.coordinates(5), grid.group(5, ("data",)), grid.group(5, ("tensor",))
    ((1, 0, 0, 0, 1), (5, 7), (4, 5))

    With `tiled`, stages are tiles of an image or paths of a network, and their coordinate changes fastest.

    >>> Grid(data=2, pipeline=4, tiled=True).group(5, ("pipeline",))
    (4, 5, 6, 7)

    Replicas shard in groups of `shared_over` neighbours, or in one group of all replicas if it is None.

    >>> grid = Grid(data=8, shared_over=4)
    >>> grid.collective_group(5, "sharers"), grid.collective_group(5, "peers")
    ((4, 5, 6, 7), (1, 5))

    With `mirrored`, stage s and stage p - 1 - s have the same parameters, and their ranks are replicas of each other.

    >>> Grid(data=2, pipeline=4, mirrored=True).collective_group(0, "replicas")
    (0, 1, 6, 7)
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1
    tiled: bool = False
    shared_over: int | None = None  # ranks of a shard group
    mirrored: bool = False  # whether opposite stages have the same parameters

    @property
    def _strides(self) -> dict[str, int]:
        """Difference in rank between neighbours along each axis."""
        steps, step = {}, 1
        for axis in ("pipeline", *AXES[:-1]) if self.tiled else AXES:
            steps[axis] = step
            step *= int(getattr(self, axis))
        return steps

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of ranks along each axis [5]."""
        return (self.tensor, self.context, self.expert, self.data, self.pipeline)

    @property
    def num_ranks(self) -> int:
        return prod(self.sizes)

    @property
    def num_replicas(self) -> int:
        """Number of ranks that have the same parameters, each for its own samples or tokens."""
        return self.context * self.expert * self.data * self.num_mirrored

    @property
    def num_expert_replicas(self) -> int:
        """Number of ranks that have the same experts."""
        return self.num_replicas // self.expert

    @property
    def num_mirrored(self) -> int:
        """Number of stages that have the same parameters."""
        return 2 if self.mirrored else 1

    @property
    def shard_group_size(self) -> int:
        """Number of replicas that shard among themselves: those of a group, or all of them."""
        return self.shared_over or self.num_replicas

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return the coordinates of a rank [5]."""
        steps = self._strides
        return tuple(rank // steps[axis] % size for axis, size in zip(AXES, self.sizes, strict=True))

    def rank(self, coordinates: Sequence[int]) -> int:
        """Return the rank at some coordinates [5]."""
        steps = self._strides
        return sum(at * steps[axis] for axis, at in zip(AXES, coordinates, strict=True))

    def stage(self, rank: int) -> int:
        return rank // self._strides["pipeline"] % self.pipeline

    def in_stage(self, rank: RankOrRanks, stage: int) -> RankOrRanks:
        """Return the rank, or ranks, in another stage with otherwise the same coordinates."""
        each = self.num_ranks // self.pipeline
        there: RankOrRanks = rank - rank % self.pipeline + stage if self.tiled else rank % each + stage * each
        return there

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that differ from this one along these axes only, itself included, in rank order."""
        steps, sizes = self._strides, dict(zip(AXES, self.sizes, strict=True))
        ranks = [rank - sum(rank // steps[axis] % sizes[axis] * steps[axis] for axis in axes)]
        for axis in axes:
            ranks = [each + number * steps[axis] for number in range(sizes[axis]) for each in ranks]
        return tuple(sorted(ranks))

    def groups(self, axes: Sequence[str]) -> np.ndarray:
        """Return the ranks of all groups along these axes [num_groups, size], in the order of their first ranks.

        >>> Grid(tensor=2, data=2).groups(("data",)).tolist()
        [[0, 2], [1, 3]]
        """
        steps, ranks = self._strides, np.arange(self.num_ranks)
        firsts = ranks - sum(ranks // steps[axis] % int(getattr(self, axis)) * steps[axis] for axis in axes)
        return np.argsort(firsts, kind="stable").reshape(-1, prod(int(getattr(self, axis)) for axis in axes))

    def replica_group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that have the same parameters as a rank, if replicas differ along some axes."""
        group = self.group(rank, axes)
        if not self.mirrored:
            return group
        opposite = self.pipeline - 1 - self.stage(rank)
        return tuple(sorted((*group, *(self.in_stage(each, opposite) for each in group))))

    def replica_groups(self, axes: Sequence[str]) -> np.ndarray:
        """Return the groups of ranks that have the same parameters [num_groups, size], if replicas differ along axes.

        >>> Grid(pipeline=4, mirrored=True).replica_groups(("data",)).tolist()
        [[0, 3], [1, 2]]
        """
        groups = self.groups(axes)
        if not self.mirrored:
            return groups
        stages = groups.reshape(self.pipeline, -1, groups.shape[1])
        half = self.pipeline // 2
        return np.concatenate([stages[:half], stages[: half - 1 : -1]], axis=2).reshape(-1, 2 * groups.shape[1])

    def collective_group(self, rank: int, axis: str) -> tuple[int, ...]:
        """Return the ranks of a collective along an axis as programs name it, in rank order."""
        if axis in ("replicas", "data"):
            return self.replica_group(rank, COLLECTIVE_AXES[axis])
        if axis not in (SHARD_GROUP, REPLICATE_GROUP):
            return self.group(rank, COLLECTIVE_AXES.get(axis, (axis,)))
        replicas, num = self.replica_group(rank, REPLICAS), self.shard_group_size
        place = replicas.index(rank)
        first = place // num * num
        return replicas[first : first + num] if axis == SHARD_GROUP else replicas[place % num :: num]
