"""What goes with a model that is laid over several GPUs to a copy, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clustersim.errors import Mistake

if TYPE_CHECKING:
    from clustersim.scenario.point import Point

LAID_OUT_STRATEGIES = ("all-reduce", "server", "local")
"""Strategies by which copies meet that lie on several GPUs each."""


def beside_layout_mistakes(point: Point) -> list[Mistake]:
    """Return what a scenario has that does not go with its layout; keys are as seen from `parallelism`."""
    return [*_compression_mistakes(point), *_input_mistakes(point), *_plain_alone(point)]


def _plain_alone(point: Point) -> Iterator[Mistake]:
    """Yield what is simulated only where each GPU trains a copy of the whole model on all of its batch at once."""
    others = {
        "stragglers per layer": any(getattr(each, "per", None) == "layer" for each in point.stragglers),
        f"strategy {point.strategy.kind}": point.strategy.kind not in LAID_OUT_STRATEGIES,
    }
    told = "where each GPU trains a copy of the whole model on all of its batch at once; leave it or the layout out"
    key = next(
        (key for key in type(point.parallelism).model_fields if key in point.parallelism.model_fields_set), "data"
    )
    for name, is_there in others.items():
        if is_there:
            yield Mistake(
                f"{name}: simulated only {told}", key=key, got=name, allowed="data: num_gpus and nothing else"
            )


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
