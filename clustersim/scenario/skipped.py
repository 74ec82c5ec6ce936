"""Why no iteration of a scenario could skip its update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clustersim.errors import Mistake

if TYPE_CHECKING:
    from clustersim.scenario.point import Point

_SCALED = ("fp16", "amp-fp16")
_KERNELS = ("none", "autograd", "deepspeed-zero")


def skipped_mistakes(point: Point) -> list[Mistake]:
    """Return why `optimizer.skipped` does not go with the rest: what overflows is scaled, and workers see it."""
    if not point.optimizer.skipped:
        return []
    layout = point.parallelism
    reasons = {
        f"precision {point.precision}": point.precision not in _SCALED,
        f"strategy {point.strategy.kind}": point.strategy.kind != "all-reduce",
        f"parallelism.offload: {layout.offload}": layout.offloads("optimizer"),
        f"parallelism.kind: {layout.kind}": layout.kind != "grid",
        f"parallelism.gradient_kernels: {layout.gradient_kernels}": layout.gradient_kernels not in _KERNELS,
        "parallelism.gather_overlap": layout.gather_overlap,
    }
    allowed = (
        f"false, or precision {' or '.join(_SCALED)} with strategy all-reduce, parallelism.kind grid without offload "
        f"or gather_overlap, and gradient_kernels {', '.join(_KERNELS)}"
    )
    return [
        Mistake(
            f"optimizer.skipped is for losses that are scaled in fp16, whose updates every GPU leaves out; it does not "
            f"go with {other}",
            key="optimizer.skipped",
            got="true",
            allowed=allowed,
        )
        for other, is_given in reasons.items()
        if is_given
    ]
