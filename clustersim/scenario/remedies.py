"""What would make a layout fit into a GPU that it does not fit into."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.model import LayerTime, Model
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.parallelism.recomputation import POINTWISE
from clustersim.parallelism.spec import Sharding
from clustersim.scenario.layout import layout_of, work_of
from clustersim.scenario.planned import plan_mistakes
from clustersim.scenario.point import Point
from clustersim.units import format_size

Changes = Mapping[str, Any]

_SHARDINGS = (None, *get_args(Sharding))
_RECOMPUTES = ("none", "selective", "full")
_OFFLOADS = ("none", ACTIVATIONS, OPTIMIZER, f"{OPTIMIZER}+{ACTIVATIONS}")


class Remedy(NamedTuple):
    """What to change under `parallelism`, and the bytes that a GPU then holds."""

    changes: Changes
    held_bytes: float

    def __str__(self) -> str:
        told = ", ".join(f"{key}: {'null' if value is None else value}" for key, value in self.changes.items())
        return f"parallelism {{{told}}}"

    def text(self) -> str:
        """Say that it fits."""
        return f"it fits with {self}, which takes {format_size(self.held_bytes)}"


def what_fits(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> str:
    """Return the least change of a layout with which it fits, or that none of them does; and who looks at all others.

    That is `clustersim plan`, where it takes the point; whether that is one of a sweep, nothing here says.
    """
    command = f"`clustersim plan SCENARIO --gpus {point.num_gpus}`"
    plan = f"{command} goes through all layouts (of a sweep, with one point given by --set)"
    remedy = least_change(point, model, given_times, gpu)
    if remedy is None:
        told = ""
    elif remedy.held_bytes <= gpu.memory_bytes:
        told = remedy.text()
    else:
        told = f"even {remedy} takes {format_size(remedy.held_bytes)}"
    return "; ".join(filter(None, (told, "" if any(plan_mistakes(point)) else plan)))


def least_change(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> Remedy | None:
    """Return the change that costs least of those that fit; the one that holds least where none does; None of none.

    Of all that can be done, what costs most is taken back first, as far as it still fits: offload, passes forward that
    are computed again, weights that are gathered for every pass, smaller micro-batches, and what else is shared out,
    which costs nothing.
    """
    levels = _levels(point)
    tried: list[Remedy] = []

    def fits(changes: Changes) -> bool:
        given = {key: value for key, value in changes.items() if value != getattr(point.parallelism, key)}
        held = _held_bytes(point, given, model, given_times, gpu) if given else None
        if held is not None:
            tried.append(Remedy(given, held))
        return held is not None and held <= gpu.memory_bytes

    kept: dict[str, Any] = {key: steps[-1] for key, steps in levels.items() if key != "offload"}
    offloads = levels.get("offload", [point.parallelism.offload])
    if not any(fits(kept := {**kept, "offload": level}) for level in offloads):
        return min(tried, key=lambda each: each.held_bytes, default=None)
    for key, steps in _taken_back(levels):
        others = [{**kept, key: level} for level in steps]
        kept = [*others, kept][bisect_left(others, True, key=fits)]
    return next(each for each in reversed(tried) if each.held_bytes <= gpu.memory_bytes)


def _taken_back(levels: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield what may be had for less, what costs most first: its key, and its levels below the one that it has."""
    yield "recompute_blocks", levels["recompute_blocks"][:-1]
    yield "recompute", levels["recompute"][:-1]
    free = [level for level in levels["sharding"] if level != "zero-3"]
    yield "sharding", free[-1:]
    yield "micro_batches", levels["micro_batches"][:-1]
    yield "sharding", free


def _levels(point: Point) -> dict[str, list[Any]]:
    """Return what keys under `parallelism` may be in place of what they are, which comes first, as far as it can be."""
    layout = point.parallelism
    if layout.kind != "grid" or layout.schedule == "pipedream":
        return {}
    now = layout.micro_batches
    sizes = [size for size in range(1, point.micro_batch + 1) if point.micro_batch % size == 0]
    shardings = _SHARDINGS if point.grid.num_replicas > 1 else (layout.sharding,)
    further = {
        "sharding": shardings[shardings.index(layout.sharding) :],
        "recompute": _recomputes(layout.recompute),
        "recompute_blocks": list(dict.fromkeys((layout.recompute_blocks, None))),
        "micro_batches": [now * size for size in sizes],
        "offload": [level for level in _OFFLOADS if set(layout.offload.split("+")) - {"none"} <= set(level.split("+"))],
    }
    return {key: [level for level in steps if _can_be(point, {key: level})] for key, steps in further.items()}


def _recomputes(now: str) -> list[str]:
    """Return what may be computed again in place of what is: as much, and what keeps less."""
    if now in POINTWISE:
        return [now, "full"]
    return [now, *_RECOMPUTES[max(1, _RECOMPUTES.index(now) + 1 if now in _RECOMPUTES else 1) :]]


def _changed(point: Point, changes: Changes) -> Point:
    return point.model_copy(update={"parallelism": point.parallelism.model_copy(update=dict(changes))})


def _can_be(point: Point, changes: Changes) -> bool:
    """Say whether a layout goes with all else that the scenario says."""
    changed = _changed(point, changes)
    given = {name: getattr(changed, name) for name in type(point).model_fields if name != "schema_"}
    try:
        type(point).model_validate(given)
    except ValidationError:
        return False
    return True


def _held_bytes(
    point: Point, changes: Changes, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu
) -> float | None:
    """Return what a GPU holds with another layout, None where that cannot be."""
    changed = _changed(point, changes)
    try:
        work = work_of(changed, model, gpu, changed.micro_batch, given_times)
        return sum(layout_of(changed, work, given_times).fullest.values())
    except InputError:
        return None
