"""The cheapest change of a layout that makes it fit into a GPU's memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.model import LayerTime, Model
from clustersim.parallelism.nearest import divisors
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.parallelism.recomputation import POINTWISE
from clustersim.parallelism.spec import Sharding
from clustersim.scenario.layout import layout_of, work_of
from clustersim.scenario.memory import gpu_memory
from clustersim.scenario.plan_checks import plan_mistakes
from clustersim.scenario.point import Point
from clustersim.units import format_size

Changes = Mapping[str, Any]

_MOST_MICRO_BATCHES = 1024  # that are tried: each of them is planned
_SHARDINGS = (None, *get_args(Sharding))
_RECOMPUTES = ("none", "selective", "full")
_OFFLOADS = ("none", ACTIVATIONS, OPTIMIZER, f"{OPTIMIZER}+{ACTIVATIONS}")


class Remedy(NamedTuple):
    """A change under `parallelism`, and the bytes that a GPU then holds."""

    changes: Changes
    held_bytes: float

    def __str__(self) -> str:
        keys = ", ".join(f"{key}: {'null' if value is None else value}" for key, value in self.changes.items())
        return f"parallelism {{{keys}}}"

    def text(self) -> str:
        """Return the sentence that the layout fits with this change."""
        return f"it fits with {self}, which takes {format_size(self.held_bytes)}"


def what_fits(point: Point, remedy: Remedy | None, gpu: Gpu) -> str:
    """Return text: the change of a layout with which it fits, or the best change if none fits.

    It also names the command `clustersim plan`, if a plan supports the point.
    """
    command = f"`clustersim plan SCENARIO --gpus {point.num_gpus}`"
    plan = f"{command} compares all layouts (for a sweep, select one point with --set)"
    if remedy is None:
        change = ""
    elif remedy.held_bytes <= gpu.memory_bytes:
        change = remedy.text()
    else:
        change = f"even {remedy} takes {format_size(remedy.held_bytes)}"
    return "; ".join(filter(None, (change, "" if any(plan_mistakes(point)) else plan)))


def least_change(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> Remedy | None:
    """Return the cheapest change that fits; the one with the least memory if none fits; None if no change is possible.

    Starts from the largest change and undoes its parts, the most expensive first, as far as the layout still fits:
    offload, recomputation, weights gathered for every pass, smaller micro-batches, and other sharding, which costs
    nothing.
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
    for key, steps in _undone(levels):
        others = [{**kept, key: level} for level in steps]
        kept = [*others, kept][bisect_left(others, True, key=fits)]
    return next(each for each in reversed(tried) if each.held_bytes <= gpu.memory_bytes)


def smaller_batch(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> str | None:
    """Return the largest smaller batch with which a point fits, such as `batch {per_gpu: 4}`; None if there is none.

    A layout keeps its number of micro-batches.
    """
    parts = point.per_gpu_batch if point.is_plain else point.micro_batch
    key, name = ("per_gpu", "per_gpu") if point.batch.per_gpu is not None else ("global_", "global")
    now = getattr(point.batch, key)
    smaller = [now * part // parts for part in range(1, parts) if now * part % parts == 0]

    def lacks(number: int) -> bool:
        batch = point.batch.model_copy(update={key: number})
        changed = point.model_copy(update={"batch": batch})
        if point.is_plain:
            return sum(gpu_memory(changed, model).values()) > gpu.memory_bytes
        held = _held_bytes(changed, {}, model, given_times, gpu)
        return held is None or held > gpu.memory_bytes

    fitting = bisect_left(smaller, True, key=lacks)
    return f"batch {{{name}: {smaller[fitting - 1]}}}" if fitting else None


def _undone(levels: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the parts of a change to undo, the most expensive first: a key, and its levels below the current one."""
    yield "recompute_blocks", levels["recompute_blocks"][:-1]
    yield "recompute", levels["recompute"][:-1]
    free = [level for level in levels["sharding"] if level != "zero-3"]
    yield "sharding", free[-1:]
    yield "micro_batches", levels["micro_batches"][:-1]
    yield "sharding", free


def _levels(point: Point) -> dict[str, list[Any]]:
    """Return the possible values of keys under `parallelism`, from the present value up to the least memory."""
    layout = point.parallelism
    if layout.kind != "grid" or layout.schedule == "pipedream":
        return {}
    now = layout.micro_batches
    sizes = divisors(point.micro_batch)
    shardings = _SHARDINGS if point.grid.num_replicas > 1 else (layout.sharding,)
    further = {
        "sharding": shardings[shardings.index(layout.sharding) :],
        "recompute": _recomputes(layout.recompute),
        "recompute_blocks": list(dict.fromkeys((layout.recompute_blocks, None))),
        "micro_batches": [now * size for size in sizes if now * size <= _MOST_MICRO_BATCHES],
        "offload": [level for level in _OFFLOADS if set(layout.offload.split("+")) - {"none"} <= set(level.split("+"))],
    }
    return {key: [level for level in steps if _is_valid(point, {key: level})] for key, steps in further.items()}


def _recomputes(now: str) -> list[str]:
    """Return the possible values of `recompute`: the present one, then those that keep less."""
    if now in POINTWISE:
        return [now, "full"]
    return [now, *_RECOMPUTES[max(1, _RECOMPUTES.index(now) + 1 if now in _RECOMPUTES else 1) :]]


def _changed(point: Point, changes: Changes) -> Point:
    return point.model_copy(update={"parallelism": point.parallelism.model_copy(update=dict(changes))})


def _is_valid(point: Point, changes: Changes) -> bool:
    """Return whether a point stays valid with these changes of its layout."""
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
    """Return the bytes that a GPU holds with another layout; None if that layout is not possible."""
    changed = _changed(point, changes)
    try:
        work = work_of(changed, model, gpu, changed.micro_batch, given_times)
        return sum(layout_of(changed, work, given_times).fullest.values())
    except InputError:
        return None
