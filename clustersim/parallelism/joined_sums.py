"""Sums of shares that groups of copies join into few all-reduces, as XLA's combiner of all-reduces does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clustersim.parallelism.grid import PEERS
from clustersim.program import assign_buckets
from clustersim.program.buckets import FusionBuffer
from clustersim.program.ops import Call, Key, Op, Pass


class Share(NamedTuple):
    """A share of a unit's gradients, which is there after `num_ops` operations and the reduce-scatter `scattered`.

    `place` is that of the unit's first layer in the model, `name` what this layer is called.
    """

    num_ops: int
    scattered: Key | None
    num_bytes: float
    place: int
    name: str


def joined(shares: Sequence[Share], most_bytes: float) -> list[list[int]]:
    """Put shares into all-reduces of no more than so many bytes, in the order of their names; return their numbers.

    XLA's all-reduce combiner goes through a program in post-order and joins all-reduces until the next does not fit
    (`CombineInstructionsByKey` in xla/service/collective_combiner_utils.h). A step of JAX returns its parameters in the
    order of their names as text: `layers_0`, `layers_1`, `layers_10`, ..., and the embedding behind them, which Flax
    has beside the decoder (`token_embedder`). So what is joined is seldom what backward has at the same time.

    >>> shares = [Share(0, None, 4.0, number, f"h.{number}.norm") for number in (10, 2, 1)]
    >>> joined([*shares, Share(0, None, 4.0, 0, "embedding")], 8.0)
    [[2, 0], [1, 3]]
    """
    order = sorted(range(len(shares)), key=lambda number: (shares[number].place == 0, shares[number].name))
    sizes = [shares[number].num_bytes for number in order]
    return [[order[each] for each in members] for members in assign_buckets(sizes, FusionBuffer(most_bytes))]


@dataclass
class JoinedSums:
    """Keeps account of the shares of a stage in the order in which backward has them; None joins nothing."""

    most_bytes: float | None
    shares: list[Share] = field(default_factory=list)

    def put_into(self, ops: list[Op | Pass]) -> list[Key]:
        """Write the all-reduces down, each behind the last of its shares; return what the update waits for."""
        if self.most_bytes is None or not self.shares:
            return []
        lasts = {max(members): members for members in joined(self.shares, self.most_bytes)}
        keys = []
        for last in sorted(lasts, reverse=True):
            share, num_bytes = self.shares[last], sum(self.shares[each].num_bytes for each in lasts[last])
            key = Key("shares of gradients of all groups", 0, share.place)
            ops.insert(share.num_ops, Call(key, "all-reduce", PEERS, num_bytes, after=share.scattered))
            keys.append(key)
        return keys
