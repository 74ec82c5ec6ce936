"""The way of micro-batches through the parts of a model, and the stages that have these parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["loop", "there-and-back", "both-ways"]

ROUTES: dict[str, Kind] = {"dualpipe": "both-ways", "dualpipe-v": "there-and-back"}
"""The kind of route of each schedule that does not go round the stages in a loop."""


@dataclass(frozen=True)
class Route:
    """The positions on the way of micro-batches: each is a part of the model on a stage.

    - `loop`: part k is on stage k mod p, and a micro-batch goes round the stages once for each chunk.
    - `there-and-back`: parts 0 to p - 1 are on the stages in order, parts p to 2 p - 1 in reverse order (DualPipeV).
    - `both-ways`: there are two ways, one from each end. Positions 0 to p - 1 are the parts on the stages in order, and
      positions p to 2 p - 1 the same parts on the stages in reverse order (DualPipe).

    >>> route = Route("both-ways", num_stages=4)
    >>> [(route.position(stage, 0), route.position(stage, 1)) for stage in range(4)]
    [(0, 7), (1, 6), (5, 2), (4, 3)]
    >>> route.parts(1), route.next(3), route.next(4)
    ((1, 2), None, 5)
    """

    kind: Kind
    num_stages: int
    num_chunks: int = 1

    @property
    def num_parts(self) -> int:
        """Number of parts into which the model is cut."""
        return self.num_stages * self.num_chunks

    @property
    def num_copies(self) -> int:
        """Number of stages that have each part."""
        return 2 if self.kind == "both-ways" else 1

    def chunks(self) -> range:
        """Return the numbers of the chunks of a stage."""
        return range(self.num_chunks * self.num_copies)

    def position(self, stage: int, chunk: int) -> int:
        """Return the position of a chunk of a stage."""
        if self.kind == "loop":
            return chunk * self.num_stages + stage
        is_far = self.kind == "both-ways" and stage >= self.num_stages // 2
        return 2 * self.num_stages - 1 - stage if (chunk == 1) != is_far else stage

    def stage(self, position: int) -> int:
        """Return the stage at a position."""
        if self.kind == "loop":
            return position % self.num_stages
        return min(position, 2 * self.num_stages - 1 - position)

    def part(self, position: int) -> int:
        """Return the part of the model at a position."""
        return position % self.num_parts

    def parts(self, stage: int) -> tuple[int, ...]:
        """Return the part of each chunk of a stage."""
        return tuple(self.part(self.position(stage, chunk)) for chunk in self.chunks())

    def next(self, position: int) -> int | None:
        """Return the position after this one; None at the end of the model."""
        return None if self.part(position) == self.num_parts - 1 else position + 1

    def previous(self, position: int) -> int | None:
        """Return the position before this one; None at the beginning of the model."""
        return None if not self.part(position) else position - 1


def route_of(schedule: str, num_stages: int, num_chunks: int) -> Route:
    """Return the route of a schedule."""
    return Route(ROUTES.get(schedule, "loop"), num_stages, num_chunks)
