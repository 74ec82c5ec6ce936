"""Knobs of the training: batch, layout, strategy and its algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from clustersim.collectives import algorithms_of
from clustersim.communicator.algorithm import CHOICES
from clustersim.parallelism.spec import Sharding
from clustersim.strategies import STRATEGIES, Strategy
from clustersim.what_if.base import Base
from clustersim.what_if.knob import Knob, Stop, value_text
from clustersim.what_if.scale import around, choices, knob, numbers, powers

_BATCHES = 8
"""Times the scenario's batch, and a part of it, that are offered at most."""

_RECOMPUTES = ("none", "selective", "full")
_MOST_TENSOR, _MOST_PIPELINE, _MOST_MICRO_BATCHES = 16, 16, 64


def batch_knobs(base: Base) -> Iterator[Knob]:
    """Yield the batch, of a GPU or of all, as the scenario gives it."""
    batch = base.point.batch
    key, now = ("per_gpu", batch.per_gpu) if batch.per_gpu else ("global", batch.global_)
    if now:
        label = "Batch of a GPU" if key == "per_gpu" else "Batch of all GPUs"
        yield numbers(base, f"batch.{key}", label, around(now, _BATCHES), now, unit="samples")


def layout_knobs(base: Base) -> Iterator[Knob]:
    """Yield the degrees of a grid, its micro-batches, its sharding and its recomputation.

    The degree of data parallelism is what is left of the number of GPUs.
    """
    layout = base.point.parallelism
    if layout.kind != "grid":
        return
    most = base.most_gpus() or 8 * base.point.num_gpus
    for axis, label, limit in (
        ("tensor", "Tensor parallel", _MOST_TENSOR),
        ("pipeline", "Pipeline stages", _MOST_PIPELINE),
    ):
        now = getattr(base.point.grid, axis)
        yield numbers(base, f"parallelism.{axis}", label, powers(min(limit, most)), now)
    batches = powers(_MOST_MICRO_BATCHES)
    yield numbers(base, "parallelism.micro_batches", "Micro-batches", batches, layout.micro_batches)
    shardings = [None, *get_args(Sharding)]
    yield choices(base, "parallelism.sharding", "Sharding", shardings, layout.sharding)
    yield choices(base, "parallelism.recompute", "Recomputation", _RECOMPUTES, layout.recompute)


def strategy_knobs(base: Base) -> Iterator[Knob]:
    """Yield the kind of the strategy, with the least that a kind needs, and the algorithm of its all-reduce."""
    if "strategy" in base.listed:
        axis = base.listed["strategy"]
        stops = [Stop(value, str(label)) for value, label in zip(axis.values, axis.labels, strict=True)]
        listed = {value.get("kind") for value in axis.values if isinstance(value, dict)}
        stops += [_whole(stop) for stop in _kinds() if stop.value not in listed]
        yield knob(base, "strategy", "Strategy", stops, axis.values[0])
        are_alike = not any("algorithm" in value for value in axis.values if isinstance(value, dict))
    else:
        yield _kind_knob(base)
        are_alike = True
    if are_alike:
        names = [*CHOICES, *algorithms_of("all-reduce")]
        now = getattr(base.point.strategy, "algorithm", "auto")
        kinds = tuple(name for name, kind in STRATEGIES.items() if "algorithm" in kind.model_fields)
        yield choices(base, "strategy.algorithm", "Algorithm of the all-reduce", names, now, kinds=kinds)


def _kind_knob(base: Base) -> Knob:
    now = base.point.strategy.kind
    axis = base.listed.get("strategy.kind")
    listed = list(axis.values) if axis else [now]
    others = [stop for stop in _kinds() if stop.value not in listed]
    stops = [*(Stop(value, str(value)) for value in listed), *others]
    return knob(base, "strategy.kind", "Strategy", stops, now)


def _kinds() -> Iterator[Stop]:
    """Yield every kind of strategy that needs nothing but numbers, with the least of those."""
    for name, kind in STRATEGIES.items():
        needs = _least(kind)
        if needs is not None:
            yield Stop(name, name, also=tuple((f"strategy.{key}", value) for key, value in needs.items()))


def _whole(stop: Stop) -> Stop:
    """Return a kind of strategy as the whole value of `strategy`."""
    keys = {"kind": stop.value} | {key.removeprefix("strategy."): value for key, value in stop.also}
    return Stop(keys, value_text(keys) if len(keys) > 1 else str(stop.value))


def _least(kind: type[Strategy]) -> dict[str, Any] | None:
    """Return the required keys of a kind of strategy, each with 1; None where that is not a value of one."""
    needs = {name: 1 for name, field in kind.model_fields.items() if field.is_required() and name != "kind"}
    try:
        TypeAdapter(kind).validate_python({**_tag(kind), **needs}, strict=True)
    except ValidationError:
        return None
    return needs


def _tag(kind: type[Strategy]) -> dict[str, Any]:
    return {"kind": kind.model_fields["kind"].default}
