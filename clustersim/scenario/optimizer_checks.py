"""Checks of `optimizer`: skipped updates, and updates that are issued after the sums of gradients."""

from __future__ import annotations

from clustersim.errors import Mistake
from clustersim.scenario.keys import PointKeys

_SCALED = ("fp16", "amp-fp16")
_KERNELS = ("none", "autograd", "deepspeed-zero")


def skipped_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why no update can be skipped: only scaled fp16 losses overflow, and every worker must see it."""
    if not point.optimizer.skipped:
        return []
    layout = point.parallelism
    reasons = {
        f"precision {point.precision}": point.precision not in _SCALED,
        f"strategy {point.strategy.kind}": not point.strategy.all_reduces_gradients,
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
            f"optimizer.skipped is for scaled fp16 losses that overflow, where every GPU skips the update; it does not "
            f"go with {other}",
            key="optimizer.skipped",
            got="true",
            allowed=allowed,
        )
        for other, is_given in reasons.items()
        if is_given
    ]


def issue_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why `software.update_issue` does not apply: each GPU must update all weights, after an all-reduce."""
    if point.optimizer.issue is None:
        return []
    others = {
        f"strategy {point.strategy.kind}": not point.strategy.all_reduces_gradients,
        "parallelism, micro-batches or sharding": not point.is_plain,
    }
    allowed = "with strategy all-reduce, and a whole model on each GPU"
    return [
        Mistake(
            f"optimizer.issue is simulated only with all-reduces between GPUs that each have the whole model; it does "
            f"not go with {other}",
            key="optimizer.issue",
            got="given",
            allowed=allowed,
        )
        for other, is_given in others.items()
        if is_given
    ]
