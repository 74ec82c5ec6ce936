"""Checks of `lora` and `packing`: what changes a model's layers needs times that are estimated."""

from __future__ import annotations

from clustersim.errors import Mistake
from clustersim.scenario.exclusions import exclusions
from clustersim.scenario.keys import PointKeys


def lora_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why a model with adapters cannot be trained like this."""
    if point.lora is None:
        return []
    layout = point.parallelism
    reasons = {
        f"parallelism.kind: {layout.kind}": layout.kind != "grid",
        f"software.tensor_overlap with parallelism.tensor: {layout.tensor}": layout.tensor_overlap,
        f"software.input_sums: {layout.input_sums}": layout.input_sums != "joined",
        f"parallelism.stages: {layout.stages}": layout.stages is not None,
        "compute.profile": point.compute.profile is not None,
        f"software.embedding: {point.compute.embedding}": point.compute.embedding != "lookup",
    }
    allowed = "with parallelism.kind grid, no overlap of products, no stages by numbers of layers, and estimated times"
    about = Mistake(
        "adapters are simulated beside whole layers whose times are estimated; lora does not go with OTHER",
        key="lora",
        got="given",
        allowed=allowed,
    )
    return exclusions(about, reasons)


def packing_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why documents cannot be packed like this."""
    if point.packing is None or point.packing.kind != "packed":
        return []
    layout = point.parallelism
    reasons = {
        f"parallelism.kind: {layout.kind}": layout.kind != "grid",
        f"parallelism.context_method: {layout.context_method}": (layout.context or 1) > 1
        and layout.context_method == "ring",
        "compute.profile": point.compute.profile is not None,
    }
    allowed = "with parallelism.kind grid, no ring attention, and estimated times"
    about = Mistake(
        "attention inside documents is estimated for whole sequences; packing does not go with OTHER",
        key="packing",
        got="packed",
        allowed=allowed,
    )
    return exclusions(about, reasons)
