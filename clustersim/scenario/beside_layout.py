"""What goes with a model that is laid over several GPUs to a copy, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clustersim.errors import Mistake

if TYPE_CHECKING:
    from clustersim.scenario.point import Point

IN_STEP = ("all-reduce", "server")
"""Strategies by which ranks that have the same parameters meet in every iteration, whatever else they share."""

OF_COPIES = ("local", "gossip", "async", "softsync", "bounded-staleness", "backup")
"""Strategies by which copies of a model meet as workers do, each of which may lie on several GPUs."""


def beside_layout_mistakes(point: Point) -> list[Mistake]:
    """Return what a scenario has that does not go with its layout; keys are as seen from `parallelism`."""
    return [
        *_strategy_mistakes(point),
        *_compression_mistakes(point),
        *_input_mistakes(point),
        *_layer_mistakes(point),
        *_whole_layers_mistakes(point),
    ]


def _strategy_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield why copies cannot meet by the scenario's strategy."""
    kind, key = point.strategy.kind, _first_key(point)
    allowed = " or ".join(f"strategy: {each}" for each in (*IN_STEP, *OF_COPIES))
    if kind not in (*IN_STEP, *OF_COPIES) and point.parallelism.kind == "grid":
        why = "has workers of one host meet before all others, where each GPU is a worker"
        if kind == "data-parallel":
            why = "is one process that has the whole model on each GPU"
        message = f"strategy {kind} {why}; here a worker is a copy of the model over several GPUs"
        yield Mistake(f"{message}; take another strategy, or leave the layout out", key, got=kind, allowed=allowed)
    if kind == "gossip" and getattr(point.strategy, "asynchronous", False):
        message = (
            "asynchronous gossip has each GPU average with whoever is free, and the GPUs of a copy have to average "
            "with the same other copy; leave asynchronous out, or the layout"
        )
        yield Mistake(message, key, got="asynchronous gossip", allowed="gossip in step")
    for axis, why in (("context", "have tokens of the same samples"), ("expert", "share out the experts")):
        if kind in OF_COPIES and getattr(point.grid, axis) > 1:
            message = f"GPUs along {axis} {why}, which keeps them in step (strategy is {kind}); leave {axis} out"
            got = str(getattr(point.grid, axis))
            yield Mistake(message, axis, got=got, allowed="1, or strategy: " + ", ".join(IN_STEP))


def _layer_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that stragglers are drawn for layers, which a layout divides."""
    if any(getattr(each, "per", None) == "layer" for each in point.stragglers):
        message = (
            "stragglers per layer are simulated where each GPU has whole layers, all of them; "
            "take per: iteration, or leave the layout out"
        )
        yield Mistake(message, _first_key(point), got="per: layer", allowed="per: iteration")


def _whole_layers_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what takes whole layers on each GPU, where a layout divides them: how tensors of gradients travel."""
    found = (
        (point.strategy.by_tensor, "buckets of single tensors", "buckets: tensor", "buckets: layer"),
        (
            point.strategy.sends_shared_twice,
            "shared weights that travel twice",
            "shared_weights: twice",
            "shared_weights: once",
        ),
        (point.strategy.blocks_parents, "copies that hold parents up", "stream: default", "stream: own"),
    )
    for is_given, what, got, allowed in found:
        if is_given:
            message = (
                f"{what} are simulated where each GPU has whole layers, all of them; take {allowed}, "
                "or leave the layout out"
            )
            yield Mistake(message, _first_key(point), got=got, allowed=allowed)


def _first_key(point: Point) -> str:
    """Return the first key that says how the model is laid out."""
    layout = point.parallelism
    return next((key for key in type(layout).model_fields if key in layout.model_fields_set), "data")


def _input_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that it is not known which GPU of a copy reads what."""
    kind = point.parallelism.kind
    if point.input is not None and kind in ("local-fields", "paths"):
        message = f"{kind}: which GPU of a copy reads which part of a sample is not simulated; leave input out"
        yield Mistake(message, "kind", got=kind, allowed="kind: grid or one-weird-trick")


def _compression_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what exchanges gradients otherwise than a strategy does, bucket by bucket, which is what is compressed."""
    kind, layout = point.compression.kind, point.parallelism
    if kind == "none":
        return
    told = f"so that nobody compresses them as {kind}; leave compression out"
    if layout.sharding is not None:
        why = f"with {layout.sharding} copies add up gradients in shares"
        yield Mistake(f"{why}, {told}, or sharding", "sharding", got=layout.sharding, allowed="no sharding")
    if layout.schedule == "pipedream":
        why = "with pipedream copies add up the gradients of every micro-batch in their programs"
        yield Mistake(f"{why}, {told}, or take another schedule", "schedule", got="pipedream", allowed="1f1b")
    if point.grid.expert > 1:
        why = "gradients of experts are added up among the copies of an expert beside all others"
        yield Mistake(f"{why}, {told}, or expert", "expert", got=str(point.grid.expert), allowed="1")
