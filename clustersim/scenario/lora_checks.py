"""Checks of `lora`: adapters are simulated with whole layers, whose times are not given."""

from __future__ import annotations

from clustersim.errors import Mistake
from clustersim.scenario.keys import PointKeys


def lora_mistakes(point: PointKeys) -> list[Mistake]:
    """Return why a model with adapters cannot be trained like this."""
    if point.lora is None:
        return []
    layout = point.parallelism
    reasons = {
        f"parallelism.kind: {layout.kind}": layout.kind != "grid",
        f"parallelism.tensor: {layout.tensor}": (layout.tensor or 1) > 1,
        f"parallelism.stages: {layout.stages}": layout.stages is not None,
        "compute.profile": point.compute.profile is not None,
        f"software.embedding: {point.compute.embedding}": point.compute.embedding != "lookup",
    }
    allowed = "with parallelism.kind grid, tensor 1, no stages by numbers of layers, and estimated times"
    return [
        Mistake(
            f"adapters are simulated beside whole layers whose times are estimated; lora does not go with {other}",
            key="lora",
            got="given",
            allowed=allowed,
        )
        for other, is_given in reasons.items()
        if is_given
    ]
