"""Two binary trees at once, half of the buffer through each: a rank that is inside one is mostly a leaf of the other.

Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009, with the
trees of NCCL (`src/graph/trees.cc`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective, log2_ceil
from clustersim.collectives.pipeline import default_num_chunks
from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError


class Tree(NamedTuple):
    """A tree over ranks: `parent` [num_ranks], -1 at the root, and `depth` [num_ranks], 0 at the root."""

    parent: np.ndarray
    depth: np.ndarray


def double_trees(num_ranks: int) -> tuple[Tree, Tree]:
    """Return NCCL's two trees.

    The first is the binary tree in rank order whose leaves are the odd ranks, with rank 0 above its root;
    the second is its mirror image for an even number of ranks and the first moved on by one for an odd one.

    >>> [tree.parent.tolist() for tree in double_trees(4)]
    [[-1, 2, 0, 2], [1, 3, 1, -1]]
    """
    rank = np.arange(num_ranks)
    lowest = rank & -rank
    up = (rank ^ lowest) | (lowest << 1)
    parent = np.where(rank == 0, -1, np.where(up < num_ranks, up, rank ^ lowest))
    first = Tree(parent, _depth(parent))
    image = num_ranks - 1 - rank if num_ranks % 2 == 0 else (rank + 1) % num_ranks
    second = np.empty_like(parent)
    second[image] = np.where(parent < 0, -1, image[parent])
    depth = np.empty_like(first.depth)
    depth[image] = first.depth
    return first, Tree(second, depth)


def _depth(parent: np.ndarray) -> np.ndarray:
    depth = np.zeros_like(parent)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def double_tree_all_reduce(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Schedule:
    """Schedule an all-reduce up and down two binary trees, each with half of the buffer in `num_chunks` pieces.

    2 (num_chunks + h - 1) steps for trees of height h = ceil(log2 n). A rank sends half of the buffer up
    each tree that it is not the root of, and down to each child: at most twice the buffer where n is even,
    2 (n - 1) / n of it on average. Pieces of 512 KiB by default. NCCL starts a piece's way down while others
    are still on their way up; here the way down follows, which keeps the links busy for as long.
    """
    check_collective(num_ranks, num_bytes)
    pieces = _num_chunks(num_ranks, num_bytes, num_chunks)
    if num_ranks == 1:
        return Schedule.idle(1, 2 * pieces)
    edges = _Edges(double_trees(num_ranks), pieces, num_bytes)
    num_steps = pieces + edges.height - 1
    up = Schedule(num_ranks, num_steps, edges.up, 2 * pieces, edges.busy_up)
    down = Schedule(num_ranks, num_steps, edges.down, 2 * pieces, edges.busy_down)
    return Schedule.concatenate([up, down])


class _Edges:
    """The edges of both trees from child to parent, and which piece of its half each one carries in a step."""

    def __init__(self, trees: tuple[Tree, Tree], pieces: int, num_bytes: float):
        inner = [np.flatnonzero(tree.parent >= 0) for tree in trees]
        self._child = np.concatenate(inner)
        self._parent = np.concatenate([tree.parent[ranks] for tree, ranks in zip(trees, inner, strict=True)])
        self._depth = np.concatenate([tree.depth[ranks] for tree, ranks in zip(trees, inner, strict=True)])
        self._half = np.repeat([0, pieces], [len(ranks) for ranks in inner])
        self._pieces = pieces
        self._piece_bytes = num_bytes / (2 * pieces)
        self.height = int(self._depth.max())

    def busy_up(self, step: int) -> tuple[int, int]:
        """Return the least and the greatest depth of the children that send a piece up in a step."""
        return max(1, self.height - step), min(self.height, self.height - step + self._pieces - 1)

    def busy_down(self, step: int) -> tuple[int, int]:
        """Return the least and the greatest depth of the children that get a piece in a step."""
        return max(1, step + 2 - self._pieces), min(self.height, step + 1)

    def up(self, step: int) -> Step:
        piece = step - (self.height - self._depth)
        now = (piece >= 0) & (piece < self._pieces)
        chunk = (self._half + piece)[now]
        return Step.of(self._child[now], self._parent[now], self._piece_bytes, chunk, reduce=True)

    def down(self, step: int) -> Step:
        piece = step - (self._depth - 1)
        now = (piece >= 0) & (piece < self._pieces)
        chunk = (self._half + piece)[now]
        return Step.of(self._parent[now], self._child[now], self._piece_bytes, chunk)


def double_tree_all_reduce_cost(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Cost:
    """Return 2 (c + h - 1) messages that carry (4 (c + h) - 6) pieces of b / (2 c) bytes, for c = num_chunks.

    h = ceil(log2 n) is the height. A rank's two children share its link, save in the step at the root, which
    has one child. Two ranks pass 2 c pieces and three ranks 4 c. It holds for powers of two, and for c >= h - 1
    otherwise (tested up to 66 ranks); with fewer pieces the trees' ragged edge leaves ranks out of step, there is no
    such form, and an error says so.
    """
    pieces = _num_chunks(num_ranks, num_bytes, num_chunks)
    if num_ranks == 1:
        return Cost(0, 0.0)
    height = log2_ceil(num_ranks)
    if num_ranks & (num_ranks - 1) and pieces < height - 1:
        raise InputError(
            f"a double tree over {num_ranks} ranks has a closed form from {height - 1} pieces on "
            f"(got num_chunks = {pieces}): simulate it, or take a power of two",
            got=str(pieces),
            allowed=f"num_chunks of {height - 1} or more",
        )
    passed = {2: 2 * pieces, 3: 4 * pieces}.get(num_ranks, 4 * (pieces + height) - 6)
    return Cost(2 * (pieces + height - 1), passed * num_bytes / (2 * pieces))


def _num_chunks(num_ranks: int, num_bytes: float, num_chunks: int | None) -> int:
    pieces = default_num_chunks(num_bytes / 2, log2_ceil(num_ranks)) if num_chunks is None else num_chunks
    check_at_least_one("num_chunks", pieces)
    return pieces
