"""Checks of what a scenario combines with a model whose copies are split over several GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.keys import PointKeys
from clustersim.strategies import strategies_with


def compatibility_mistakes(point: PointKeys) -> list[Mistake]:
    """Return what in a scenario does not go with its layout; keys are relative to `parallelism`."""
    return [
        *_strategy_mistakes(point),
        *_compression_mistakes(point),
        *_input_mistakes(point),
        *_layer_mistakes(point),
        *_whole_layer_mistakes(point),
    ]


def _strategy_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield why copies cannot synchronize with the scenario's strategy."""
    strategy, key = point.strategy, _first_key(point)
    kind, why = strategy.kind, strategy.layout_refusal
    if why is not None and (point.parallelism.kind == "grid" or strategy.supports_layouts):
        allowed = " or ".join(f"strategy: {each}" for each in strategies_with("supports_layouts"))
        message = f"strategy {kind} {why}; here a worker is a replica of the model on several GPUs"
        yield Mistake(f"{message}; take another strategy, or leave the layout out", key, got=kind, allowed=allowed)
    for axis, why in (("context", "hold tokens of the same samples"), ("expert", "divide the experts")):
        if not strategy.synchronizes_replicas and strategy.supports_layouts and getattr(point.grid, axis) > 1:
            message = f"GPUs along {axis} {why}, so they must be synchronous (got strategy {kind}); leave {axis} out"
            got = str(getattr(point.grid, axis))
            yield Mistake(
                message, axis, got=got, allowed="1, or strategy: " + ", ".join(strategies_with("synchronizes_replicas"))
            )


def _layer_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield that stragglers are drawn per layer, and the layout divides layers."""
    if any(getattr(each, "per", None) == "layer" for each in point.stragglers):
        message = (
            "stragglers per layer are simulated only if each GPU has the whole model; "
            "take per: iteration, or leave the layout out"
        )
        yield Mistake(message, _first_key(point), got="per: layer", allowed="per: iteration")


def _whole_layer_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield options of the gradient exchange that need the whole model on each GPU."""
    found = (
        (point.strategy.by_tensor, "buckets of single tensors", "buckets: tensor", "buckets: layer"),
        (
            point.strategy.sends_shared_twice,
            "shared weights sent twice",
            "shared_weights: twice",
            "shared_weights: once",
        ),
        (point.strategy.blocks_parents, "copies in the default stream", "copy_stream: default", "copy_stream: own"),
    )
    for is_given, what, got, allowed in found:
        if is_given:
            message = (
                f"{what} are simulated only if each GPU has the whole model; take {allowed}, or leave the layout out"
            )
            yield Mistake(message, _first_key(point), got=got, allowed=allowed)


def _first_key(point: PointKeys) -> str:
    """Return the first key that describes the layout."""
    layout = point.parallelism
    return next((key for key in type(layout).model_fields if key in layout.model_fields_set), "data")


def _input_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield that the layout does not define which GPU of a copy reads which samples."""
    kind = point.parallelism.kind
    if point.input is not None and kind in ("local-fields", "paths"):
        message = f"reading parts of samples by the GPUs of a copy is not simulated ({kind}); leave input out"
        yield Mistake(message, "kind", got=kind, allowed="kind: grid or one-weird-trick")


def _compression_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield layouts whose gradients are not exchanged by the strategy, bucket by bucket, so are not compressed."""
    kind, layout = point.compression.kind, point.parallelism
    if kind == "none":
        return
    remedy = f"which does not compress them (got {kind}); leave compression out"
    if layout.sharding is not None:
        why = f"with {layout.sharding} gradients are reduce-scattered"
        yield Mistake(f"{why}, {remedy}, or sharding", "sharding", got=layout.sharding, allowed="no sharding")
    if layout.schedule == "pipedream":
        why = "with pipedream the schedule all-reduces the gradients of every micro-batch"
        yield Mistake(f"{why}, {remedy}, or take another schedule", "schedule", got="pipedream", allowed="1f1b")
    if point.grid.expert > 1:
        why = "gradients of experts are added in an exchange of their own"
        yield Mistake(f"{why}, {remedy}, or expert", "expert", got=str(point.grid.expert), allowed="1")
