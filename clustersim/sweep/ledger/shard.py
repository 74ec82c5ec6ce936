"""A share of the points of a sweep, for one job of an array."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.errors import InputError

_ALLOWED = "I/N, such as 0/8 or $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT; I from 0 to N"


@dataclass(frozen=True)
class SweepShard:
    """The points whose number leaves the rest `rest` when divided by `num_shards`."""

    rest: int = 0
    num_shards: int = 1

    @classmethod
    def parse(cls, text: str) -> SweepShard:
        """Return the shard of a text; jobs may be counted from 0 or from 1.

        >>> SweepShard.parse("4/4"), SweepShard.parse("1/4")
        (SweepShard(rest=0, num_shards=4), SweepShard(rest=1, num_shards=4))
        """
        rest, slash, num_shards = text.partition("/")
        is_number = rest.isdecimal() and num_shards.isdecimal()
        if not slash or not is_number or not int(num_shards) or int(rest) > int(num_shards):
            raise InputError(f"expected {_ALLOWED} (got '{text}')", got=text, allowed=_ALLOWED)
        return cls(int(rest) % int(num_shards), int(num_shards))

    def count(self, num_points: int) -> int:
        """Return the number of its points.

        >>> [SweepShard(rest, 3).count(10) for rest in range(3)]
        [4, 3, 3]
        """
        return len(range(self.rest, num_points, self.num_shards))

    def __str__(self) -> str:
        return f"{self.rest}/{self.num_shards}"
