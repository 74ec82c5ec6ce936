"""Where it is known that processes wait for sums of gradients before they issue an update (`optimizer.issue`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clustersim.errors import Mistake

if TYPE_CHECKING:
    from clustersim.scenario.point import Point


def issue_mistakes(point: Point) -> list[Mistake]:
    """Return why `optimizer.issue` does not go with the rest: each GPU updates all weights, after an all-reduce."""
    if point.optimizer.issue is None:
        return []
    others = {
        f"strategy {point.strategy.kind}": point.strategy.kind != "all-reduce",
        "parallelism, micro-batches or sharding": not point.is_plain,
    }
    allowed = "with strategy all-reduce, and a whole model on each GPU"
    return [
        Mistake(
            f"updates are issued after sums of gradients where each GPU has the whole model and they meet in "
            f"all-reduces; optimizer.issue does not go with {other}",
            key="optimizer.issue",
            got="given",
            allowed=allowed,
        )
        for other, is_given in others.items()
        if is_given
    ]
