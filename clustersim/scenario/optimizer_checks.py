"""Checks of `optimizer`: skipped updates, those issued after the sums of gradients, and those of whole matrices."""

from __future__ import annotations

from clustersim.errors import Mistake
from clustersim.scenario.exclusions import exclusions
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
    about = Mistake(
        "optimizer.skipped is for scaled fp16 losses that overflow, where every GPU skips the update; it does not "
        "go with OTHER",
        key="optimizer.skipped",
        got="true",
        allowed=allowed,
    )
    return exclusions(about, reasons)


def issue_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why `software.update_issue` does not apply: each GPU must update all weights, after an all-reduce."""
    if point.optimizer.issue is None:
        return []
    others = {
        f"strategy {point.strategy.kind}": not point.strategy.all_reduces_gradients,
        "parallelism, micro-batches or sharding": not point.is_plain,
    }
    allowed = "with strategy all-reduce, and a whole model on each GPU"
    about = Mistake(
        "optimizer.issue is simulated only with all-reduces between GPUs that each have the whole model; it does "
        "not go with OTHER",
        key="optimizer.issue",
        got="given",
        allowed=allowed,
    )
    return exclusions(about, others)


def muon_mistakes(point: PointKeys) -> list[Mistake]:
    """Return where `kind: muon` is not simulated: its update is on the GPUs of a synchronous grid."""
    if not point.optimizer.orthogonalizes:
        return []
    layout = point.parallelism
    reasons = {
        f"strategy {point.strategy.kind}": not point.strategy.all_reduces_gradients,
        f"parallelism.kind: {layout.kind}": layout.kind != "grid",
        f"parallelism.offload: {layout.offload}": layout.offloads("optimizer"),
        f"precision {point.precision}": point.precision in ("fp16", "amp-fp16"),
    }
    allowed = "with strategy all-reduce, parallelism.kind grid, no offload of the optimizer, and no scaled fp16"
    about = Mistake(
        "optimizer muon is simulated only on the GPUs of a synchronous grid, without loss scaling; it does not go "
        "with OTHER",
        key="optimizer.kind",
        got="muon",
        allowed=allowed,
    )
    return exclusions(about, reasons)
