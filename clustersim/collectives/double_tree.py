"""Two binary trees at once, half of the buffer through each: an inner rank of one is mostly a leaf of the other.

Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009, with the
trees of NCCL (`src/graph/trees.cc`). NCCL's trees are over hosts, with a chain through the GPUs of each host, and there
are two for each of its channels: these are given as `chains`, where `chains[channel][host]` are the ranks of a host,
beginning with the one that exchanges messages with other hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.collectives.chain import PIECE_BYTES, default_num_chunks
from clustersim.collectives.checks import Cost, check_at_least_one, check_collective, log2_ceil
from clustersim.collectives.schedule import Relays, Schedule, Step, cached_steps
from clustersim.errors import InputError

Chains = Sequence[Sequence[Sequence[int] | np.ndarray]]
"""For each channel and host its ranks, first the one that exchanges messages with other hosts."""


class Tree(NamedTuple):
    """A tree over ranks: `parent` [num_ranks], -1 at the root, and `depth` [num_ranks], 0 at the root."""

    parent: np.ndarray
    depth: np.ndarray


def double_trees(num_ranks: int) -> tuple[Tree, Tree]:
    """Return NCCL's two trees.

    The first is the binary tree in rank order whose leaves are the odd ranks, with rank 0 above its root;
    the second is its mirror image for an even number of ranks, and the first one shifted by one rank for an odd number.

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


def double_tree_all_reduce(
    num_ranks: int,
    num_bytes: float,
    num_chunks: int | None = None,
    chains: Chains | None = None,
    piece_bytes: float = PIECE_BYTES,
) -> Schedule:
    """Schedule an all-reduce up and down two binary trees, each with half of the buffer in `num_chunks` pieces.

    2 (num_chunks + h - 1) steps for trees of height h = ceil(log2 n). A rank sends half of the buffer up each tree of
    which it is not the root, and down to each child: at most twice the buffer if n is even, 2 (n - 1) / n of it on
    average. Pieces of `piece_bytes` by default. NCCL begins to send a piece down while others are still on the way up;
    here all pieces go down after the last one has come up, which keeps the links busy for as long.

    With `chains` there are two trees over the hosts for each channel, with an equal share each, and h is the height of
    the tree over hosts plus the length of the longest chain below it. Ranks then send ahead.
    """
    check_collective(num_ranks, num_bytes)
    trees = list(double_trees(num_ranks)) if chains is None else _over_hosts(num_ranks, chains)
    height = max(int(tree.depth.max()) for tree in trees)
    pieces = _num_chunks(height, num_bytes / len(trees), num_chunks, piece_bytes)
    if num_ranks == 1:
        return Schedule.idle(1, len(trees) * pieces)
    edges = _Edges(trees, pieces, num_bytes)
    num_steps, granularity = pieces + height - 1, len(trees) * pieces
    up = _longest_ways(trees) if chains is not None else None
    down = up and up._replace(src=up.dst, dst=up.src)
    return Schedule.concatenate(
        [
            _way(num_ranks, num_steps, edges.up, granularity, edges.busy_up, up),
            _way(num_ranks, num_steps, edges.down, granularity, edges.busy_down, down),
        ]
    )


def _way(
    num_ranks: int,
    num_steps: int,
    finer: Callable[[int], Step],
    granularity: int,
    busy: Callable[[int], Hashable],
    relays: Relays | None,
) -> Schedule:
    """Return the schedule up or down; what a rank sends another rank for several trees is one message."""
    coalesced = cached_steps(lambda step: finer(step).coalesced())
    return Schedule(num_ranks, num_steps, coalesced, granularity, busy, finer, relays)


def _longest_ways(trees: Sequence[Tree]) -> Relays:
    """Return the hops from a deepest rank of each tree to its root."""
    hops = []
    for tree in trees:
        rank = int(tree.depth.argmax())
        while tree.parent[rank] >= 0:
            hops.append((rank, int(tree.parent[rank])))
            rank = hops[-1][1]
    src, dst = np.array(hops, dtype=np.int64).reshape(-1, 2).T
    return Relays.of(src, dst, 1 / len(trees))


def _over_hosts(num_ranks: int, chains: Chains) -> list[Tree]:
    """Return two trees over the hosts for each channel; each host's ranks are a chain that ends at its first one."""
    all_ranks, trees = list(range(num_ranks)), []
    for hosts in chains:
        ranks = np.concatenate([np.asarray(host, dtype=np.int64) for host in hosts])
        if sorted(ranks.tolist()) != all_ranks or any(len(host) == 0 for host in hosts):
            raise InputError(
                f"the chains of a channel must have every rank from 0 to {num_ranks - 1} once, and none may be empty",
                got=str([list(map(int, host)) for host in hosts])[:60],
            )
        first = np.array([host[0] for host in hosts])
        sizes = np.array([len(host) for host in hosts])
        starts = np.cumsum(sizes) - sizes
        for tree in double_trees(len(hosts)):
            parent, depth = np.empty((2, num_ranks), dtype=np.int64)
            parent[ranks[1:]] = ranks[:-1]
            parent[first] = np.where(tree.parent < 0, -1, first[tree.parent])
            depth[ranks] = np.repeat(tree.depth, sizes) + np.arange(num_ranks) - np.repeat(starts, sizes)
            trees.append(Tree(parent, depth))
    return trees


class _Edges:
    """The edges of trees from child to parent, and the piece of its tree's share that each edge carries in a step."""

    def __init__(self, trees: Sequence[Tree], pieces: int, num_bytes: float):
        inner = [np.flatnonzero(tree.parent >= 0) for tree in trees]
        self._child = np.concatenate(inner)
        self._parent = np.concatenate([tree.parent[ranks] for tree, ranks in zip(trees, inner, strict=True)])
        self._depth = np.concatenate([tree.depth[ranks] for tree, ranks in zip(trees, inner, strict=True)])
        self._share = np.repeat(np.arange(len(trees)) * pieces, [len(ranks) for ranks in inner])
        self._pieces = pieces
        self._piece_bytes = num_bytes / (len(trees) * pieces)
        self.height = int(self._depth.max())

    def busy_up(self, step: int) -> tuple[int, int]:
        """Return the least and the greatest depth of the children that send a piece up in a step."""
        return max(1, self.height - step), min(self.height, self.height - step + self._pieces - 1)

    def busy_down(self, step: int) -> tuple[int, int]:
        """Return the least and the greatest depth of the children that receive a piece in a step."""
        return max(1, step + 2 - self._pieces), min(self.height, step + 1)

    def up(self, step: int) -> Step:
        piece = step - (self.height - self._depth)
        now = (piece >= 0) & (piece < self._pieces)
        chunk = (self._share + piece)[now]
        return Step.of(self._child[now], self._parent[now], self._piece_bytes, chunk, reduce=True)

    def down(self, step: int) -> Step:
        piece = step - (self._depth - 1)
        now = (piece >= 0) & (piece < self._pieces)
        chunk = (self._share + piece)[now]
        return Step.of(self._parent[now], self._child[now], self._piece_bytes, chunk)


def double_tree_all_reduce_cost(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Cost:
    """Return 2 (c + h - 1) messages that carry (4 (c + h) - 6) pieces of b / (2 c) bytes, for c = num_chunks.

    h = ceil(log2 n) is the height. A rank's two children share its link, except in the step at the root, which has one
    child. Two ranks pass 2 c pieces and three ranks 4 c. It holds for powers of two, and for c >= h - 1 otherwise
    (tested up to 66 ranks). With fewer pieces the unequal depths of the leaves let ranks drift apart, there is no such
    formula, and InputError is raised.
    """
    height = log2_ceil(num_ranks)
    pieces = _num_chunks(height, num_bytes / 2, num_chunks)
    if num_ranks == 1:
        return Cost(0, 0.0)
    if num_ranks & (num_ranks - 1) and pieces < height - 1:
        raise InputError(
            f"a double tree over {num_ranks} ranks has a closed form from {height - 1} pieces on "
            f"(got num_chunks = {pieces}): simulate it, or take a power of two",
            got=str(pieces),
            allowed=f"num_chunks of {height - 1} or more",
        )
    passed = {2: 2 * pieces, 3: 4 * pieces}.get(num_ranks, 4 * (pieces + height) - 6)
    return Cost(2 * (pieces + height - 1), passed * num_bytes / (2 * pieces))


def _num_chunks(height: int, tree_bytes: float, num_chunks: int | None, piece_bytes: float = PIECE_BYTES) -> int:
    pieces = default_num_chunks(tree_bytes, height, piece_bytes) if num_chunks is None else num_chunks
    check_at_least_one("num_chunks", pieces)
    return pieces
