"""Combines all-reduces between shard groups into few large ones, as XLA's combiner does (`joined_sums`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clustersim.parallelism.grid import REPLICATE_GROUP
from clustersim.program.ops import Call, Key, Op, Pass


class Share(NamedTuple):
    """The shard of a unit's gradients, which is complete after `num_ops` operations and the reduce-scatter `scattered`.

    `place` is the index of the unit's first layer in the model, `name` the name of this layer.
    """

    num_ops: int
    scattered: Key | None
    num_bytes: float
    place: int
    name: str


def combine_shares(shares: Sequence[Share], most_bytes: float) -> list[dict[int, float]]:
    """Return the all-reduces of at most `most_bytes` each, the last name first: bytes of each share by its index.

    XLA's all-reduce combiner goes through a program in post-order and combines all-reduces until the next does not fit
    (`CombineInstructionsByKey` in xla/service/collective_combiner_utils.h). A step of JAX has its parameters in the
    order of their names as text: `layers_0`, `layers_1`, `layers_10`, ..., `layers_9`, and then the embedding, which
    Flax has beside the decoder (`token_embedder`). jaxlib 0.4.38 combined the all-reduces of such a step from the last
    one to the first (a stand-in of MaxText's Llama 2 7B, its gradients clipped by their norm, compiled with MaxText's
    flags for 2 to 16 hosts). So gradients that are combined are seldom complete at about the same time. XLA combines
    whole tensors; here a block is divided where the size is reached.

    >>> shares = [Share(0, None, 4.0, number, f"h.{number}.norm") for number in (10, 2, 1)]
    >>> combine_shares([*shares, Share(0, None, 4.0, 0, "embedding")], 10.0)
    [{3: 4.0, 1: 4.0, 0: 2.0}, {0: 2.0, 2: 4.0}]
    """
    numbers = range(len(shares))
    order = sorted(numbers, key=lambda number: (shares[number].place == 0, shares[number].name), reverse=True)
    sums: list[dict[int, float]] = []
    free_bytes = 0.0
    for number in order:
        left = shares[number].num_bytes
        while left > 0:
            if free_bytes <= 0:
                sums.append({})
                free_bytes = most_bytes
            sums[-1][number] = min(left, free_bytes)
            left, free_bytes = left - sums[-1][number], free_bytes - sums[-1][number]
    return sums


@dataclass
class AllReduceCombiner:
    """Collects the shards of a stage in the order of their completion; `most_bytes` None combines nothing."""

    most_bytes: float | None
    shares: list[Share] = field(default_factory=list)

    def insert_into(self, ops: list[Op | Pass]) -> list[Key]:
        """Insert the all-reduces, each after the last of its shards; return the keys that the update waits for."""
        if self.most_bytes is None or not self.shares:
            return []
        sums = sorted(combine_shares(self.shares, self.most_bytes), key=max)
        keys = [Key("shares of gradients of all groups", 0, number) for number in range(len(sums))]
        for key, members in reversed(list(zip(keys, sums, strict=True))):
            last, num_bytes = self.shares[max(members)], sum(members.values())
            ops.insert(last.num_ops, Call(key, "all-reduce", REPLICATE_GROUP, num_bytes, after=last.scattered))
        return keys
