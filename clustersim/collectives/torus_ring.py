"""Rings along the dimensions of a torus, one dimension after another.

The multi-dimensional rings of Blue Gene and TPU pods: Jain and Sabharwal, "Optimal bucket algorithms for large
MPI collectives on torus interconnects", 2010; Ying et al., "Image classification at supercomputer scale", 2018.
Ranks are numbered with the last dimension fastest, as numpy does. Every message goes to the next router of
its ring, so on a torus with one rank per router no two messages of a step share a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError


def torus_ring_all_reduce(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> Schedule:
    """Schedule an all-reduce on a torus of `dims` ranks: reduce-scatter along x, y, z, then all-gather along z, y, x.

    2 sum(d - 1) steps; along a dimension of d ranks each rank sends 2 (d - 1) / d of its part of the buffer after the
    dimensions before, and 2 (n - 1) / n of the buffer in all. One dimension, by default, is a plain ring.

    >>> [(t.dst, t.num_bytes) for t in torus_ring_all_reduce(4, 8.0, dims=(2, 2)).transfers() if t.src == 0]
    [(2, 4.0), (1, 2.0), (1, 2.0), (2, 4.0)]
    """
    halves = [torus_ring_reduce_scatter, torus_ring_all_gather]
    return Schedule.concatenate([half(num_ranks, num_bytes, dims) for half in halves])


def torus_ring_all_reduce_cost(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> Cost:
    """Return 2 (d - 1) messages of b / (product of the dimensions up to this one) bytes for each dimension."""
    half = half_torus_ring_cost(num_ranks, num_bytes, dims)
    return half.plus(half)


def torus_ring_reduce_scatter(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> Schedule:
    """Schedule a reduce-scatter of a buffer of `num_bytes` along x, y, z: rank r ends with the sum of chunk r.

    sum(d - 1) steps; each rank sends (n - 1) / n of the buffer.
    """
    sizes = _checked(num_ranks, num_bytes, dims)
    rings = [_ring(sizes, axis, num_bytes, reduce=True) for axis in range(len(sizes))]
    return Schedule.concatenate(rings)


def torus_ring_all_gather(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> Schedule:
    """Schedule an all-gather into a buffer of `num_bytes` along z, y, x: rank r starts with chunk r.

    sum(d - 1) steps; each rank sends (n - 1) / n of the gathered buffer.
    """
    sizes = _checked(num_ranks, num_bytes, dims)
    rings = [_ring(sizes, axis, num_bytes, reduce=False) for axis in reversed(range(len(sizes)))]
    return Schedule.concatenate(rings)


def half_torus_ring_cost(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> Cost:
    """Return (d - 1) messages of b / (product of the dimensions up to this one) bytes for each dimension."""
    costs = half_torus_ring_costs(num_ranks, num_bytes, dims)
    return Cost(sum(cost.num_messages for cost in costs), sum(cost.num_bytes for cost in costs))


def half_torus_ring_costs(num_ranks: int, num_bytes: float, dims: Sequence[int] | None = None) -> list[Cost]:
    """Return the cost of a reduce-scatter or all-gather by dimension, for a torus whose dimensions differ.

    >>> half_torus_ring_costs(4, 8.0, dims=(2, 2))
    [Cost(num_messages=1, num_bytes=4.0), Cost(num_messages=1, num_bytes=2.0)]
    """
    sizes = _checked(num_ranks, num_bytes, dims)
    return [Cost(size - 1, (size - 1) * num_bytes / prod(sizes[: axis + 1])) for axis, size in enumerate(sizes)]


def _checked(num_ranks: int, num_bytes: float, dims: Sequence[int] | None) -> tuple[int, ...]:
    check_collective(num_ranks, num_bytes)
    sizes = (num_ranks,) if dims is None else tuple(int(size) for size in dims)
    for size in sizes:
        check_at_least_one("every dimension of a torus", size)
    if prod(sizes) != num_ranks or not sizes:
        shape = " x ".join(map(str, sizes))
        raise InputError(
            f"rings along the dimensions of a torus need one rank at every node: a torus of {shape or 'no dimension'} "
            f"has {prod(sizes)} and there are {num_ranks} ranks",
            got=str(num_ranks),
            allowed=str(prod(sizes)),
        )
    return sizes


def _ring(sizes: tuple[int, ...], axis: int, num_bytes: float, *, reduce: bool) -> Schedule:
    """Schedule the rings along one dimension, all at once.

    A rank's part is what is left after the dimensions before this one; the ring divides it into a block for each
    coordinate, and the rank at coordinate p ends (or starts) with block p.
    """
    num_ranks, size = prod(sizes), sizes[axis]
    block = prod(sizes[axis + 1 :])
    rank = np.arange(num_ranks)
    place = rank // block % size
    first = rank // (block * size) * (block * size)
    dst = rank + ((place + 1) % size - place) * block
    behind = 1 if reduce else 0

    def step(number: int) -> Step:
        chunk = first + (place - number - behind) % size * block
        return Step.of(rank, dst, num_bytes * block / num_ranks, chunk, block, reduce)

    return Schedule(num_ranks, size - 1, step, granularity=num_ranks, pattern=lambda number: axis)
